"""`rationales train-masker`: for text models, and for image models."""
