"""Models of the papers' experiments: plainly trained classifiers and masked language models on the MiniLM encoder."""
