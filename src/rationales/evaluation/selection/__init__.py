"""Selection rules: which units of an input the token and span metrics compare with people's marks."""
