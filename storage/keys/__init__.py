"""Keys, hashes and partitions: which tablet has a row, which rowset may have it."""
