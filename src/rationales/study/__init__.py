"""A kit for human studies: a page on which people compare blinded explanations or mark words, and its results."""
