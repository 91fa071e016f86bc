"""Classifiers trained from scratch on planted data: pictures, texts, and models that select their own rationale."""
