"""Faithfulness: how the target's probability changes when selected units are kept alone or removed."""
