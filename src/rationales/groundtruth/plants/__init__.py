"""Known causes that are put into images and texts, with the exact region of each; `catalogue` lists them all."""
