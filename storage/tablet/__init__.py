"""A tablet: its state, what may be seen of it, its metadata, and how both come back after a crash."""
