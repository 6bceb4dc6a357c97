"""Stores that this process has open: directories, served directories, clusters; bulk loads into them.

`open_stores.acquire` opens a store or shares the one that this process has. A directory that another process has open
is reached through that process (`server_processes`), a cluster by its masters (`cluster_url`). A store is closed with
its last connection. `served_directory.reachable` returns the URL by which other processes reach a store.
"""
