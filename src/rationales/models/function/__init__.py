"""Classifiers that are known only as functions from texts to probabilities: scikit-learn pipelines, callables."""
