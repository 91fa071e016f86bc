"""From inputs to rationales: scoring, selecting, checking and describing."""
