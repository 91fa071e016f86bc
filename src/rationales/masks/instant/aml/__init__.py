"""Attributive Masking Learning (Barkan et al. 2024): maskers trained by its losses, fine-tuned per input."""
