"""Backslash commands of the shell."""
