"""A server process: start, signals, end; fork."""
