"""A rationale made visible: in the terminal and as a page."""
