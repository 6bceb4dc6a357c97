"""Bulk loads into clusters (`cluster_loads`, with `load_runs`) and served directories (`served_loads`).

A load into a cluster sorts its rows and spills them until its end (`load_runs`); only then are they sent and
published, so a load that fails leaves nothing.
"""
