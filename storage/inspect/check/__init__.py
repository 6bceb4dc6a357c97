"""Checks of a store's files: `nyala fs check`."""
