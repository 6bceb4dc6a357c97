"""The row path: one row is written, read and logged without Arrow, from the key to the log entry."""
