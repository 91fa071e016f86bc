"""Causal language models that classify a text by a prompt: templates, label words, rows behind a shared prefix."""
