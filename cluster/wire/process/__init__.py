"""The life of a server process: start, signals, end; fork."""
