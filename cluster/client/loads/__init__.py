"""Bulk loads into clusters (`cluster_loads`, with `load_runs`) and served directories (`owned_loads`)."""
