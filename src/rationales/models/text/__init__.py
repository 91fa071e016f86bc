"""Text classifiers: units, tokens, rows, loading and baselines."""
