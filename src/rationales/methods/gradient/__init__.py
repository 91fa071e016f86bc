"""Methods that use gradients."""
