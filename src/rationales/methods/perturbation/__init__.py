"""Methods that perturb the input and read the outputs of the model."""
