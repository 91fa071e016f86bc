"""Rationales and tables for people: in the terminal, as HTML and as PNG."""
