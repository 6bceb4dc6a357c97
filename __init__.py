"""nyala: a columnar SQL store for fast analytics on fast-changing data."""

__version__ = "0.1.0"
