"""Training of attribution networks: texts, many networks at once, the search for loss weights, progress files."""
