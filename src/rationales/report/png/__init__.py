"""A rationale as a PNG file: of an image, or of a sound."""
