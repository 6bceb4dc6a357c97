"""Primary keys as bytes that compare as keys do, as machine words, and as hashes."""
