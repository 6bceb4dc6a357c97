"""The sql room."""
