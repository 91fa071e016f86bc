"""Maskers for pictures: a small network over the feature maps of the explained classifier predicts MaRC's mask."""
