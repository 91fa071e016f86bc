"""A vision transformer of DeiT-tiny shape for the bird photographs, distilled from a convolutional network."""
