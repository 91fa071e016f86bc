"""Encoders of three families on four data sets: MiniLM classifiers, and small RoBERTa and DistilBERT models."""
