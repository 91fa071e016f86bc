"""Table 2 of the MaRC paper: faithfulness of explanations of image classifiers."""
