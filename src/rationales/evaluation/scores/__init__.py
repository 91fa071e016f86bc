"""Raw scores of methods, and the cache that stores them."""
