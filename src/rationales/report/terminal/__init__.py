"""Rationales, comparisons and tables in the terminal."""
