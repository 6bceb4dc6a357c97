"""Binds syntax trees, clause by clause: resolves names, infers types, and produces bound statements."""
