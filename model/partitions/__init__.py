"""Hash and range partitions: which tablet holds a row, and which tablets a predicate leaves out."""
