"""Tables of Pham et al. 2022, `Double Trouble`: Input Marginalization beside leave-one-out, LIME and MaRC."""
