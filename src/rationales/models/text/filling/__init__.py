"""Fillers: masked language models that propose words for the masked words of a text."""
