"""The driver room."""
