"""Slow, literal versions of the papers' formulas: one word, one segment, one input at a time."""
