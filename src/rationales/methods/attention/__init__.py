"""Methods that look inside a transformer: attention weights, and decompositions of its hidden states."""
