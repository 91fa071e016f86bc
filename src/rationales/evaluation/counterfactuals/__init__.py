"""What removal does to a classifier and what a filler proposes (Pham et al. 2022, section 5.4, appendices B and D)."""
