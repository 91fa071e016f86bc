"""Stability of explanations: several seeds, learning rates and baselines, and how far the results agree."""
