"""ROAR: remove the words that a method scores highest, retrain, and see how much accuracy is lost."""
