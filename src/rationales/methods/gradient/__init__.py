"""Methods that use gradients, and Grad-CAM."""
