"""Tables 1 and 3 to 6 of the AML paper: faithfulness of twelve methods, agreement, ablations, time, examples."""
