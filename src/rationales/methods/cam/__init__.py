"""Class activation maps: feature maps of an image model, weighted by gradients or by outputs."""
