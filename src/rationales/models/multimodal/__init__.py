"""Image-text classifiers: words and pixels are kept or replaced together, in one batch."""
