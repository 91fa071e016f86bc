"""Audio classifiers: reading sounds, baselines, batches of frames or bins, loading."""
