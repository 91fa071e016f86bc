"""The outside world becomes a Batch: one file per kind of model."""
