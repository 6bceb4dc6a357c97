"""Writes to a cluster: rows are routed to tablets, each piece is written exactly once."""
