"""The shell room."""
