"""One run: the data, the network that is trained on it, and what every method scores on it."""
