"""Planted causes in words, in pictures and in both: which methods find them."""
