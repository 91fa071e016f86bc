"""Masks optimised with other parameterisations and objectives than those of MaRC, by the same engine."""
