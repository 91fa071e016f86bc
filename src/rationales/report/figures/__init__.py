"""Figures for papers: the rationale of a text as SVG, PDF or LaTeX."""
