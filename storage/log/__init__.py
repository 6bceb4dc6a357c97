"""The write-ahead log of a tablet."""
