"""Classifiers for images and texts, trained from scratch on planted data, and models that select a rationale."""
