"""What several methods share: feature groups, sliding windows, feature maps, rules for the backward pass."""
