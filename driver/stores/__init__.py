"""Stores that this process has open: directories, served directories, clusters; bulk loads into them."""
