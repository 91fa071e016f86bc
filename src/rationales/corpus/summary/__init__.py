"""The summary of a corpus run: statistics in one pass, and the page that shows them."""
