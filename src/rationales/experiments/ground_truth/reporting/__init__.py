"""From finished runs to tables, verdicts on the claims of the paper, and plots."""
