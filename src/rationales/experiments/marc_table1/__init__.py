"""Table 1 of the MaRC paper: its rows, and whether its claims hold, also against smoothed rivals."""
