"""The master: catalog, placement, directory of tablets."""
