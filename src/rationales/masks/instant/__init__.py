"""Maskers: networks, trained once per model, that predict MaRC's masks in one forward pass."""
