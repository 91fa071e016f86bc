"""Commands that check explanations: against a record (`check`), and with people (`study`)."""
