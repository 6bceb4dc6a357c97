"""The executor room."""
