"""Image classifiers: reading images, baselines, batches of pixels, loading."""
