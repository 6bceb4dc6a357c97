"""Bulk loads into clusters and served directories."""
