"""Training of the two sentiment models that the library and its examples use."""
