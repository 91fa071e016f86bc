"""Figures 5 to 8, 12, 13 and Table 1 of `Do Feature Attribution Methods Correctly Attribute Features?`."""
