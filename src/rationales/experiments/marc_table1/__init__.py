"""Table 1 of the MaRC paper: its rows, its claims, and what they are worth once rivals are smoothed as well."""
