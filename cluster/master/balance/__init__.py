"""Placement and repair: the coordinator compares the catalog with reports and sends orders to tablet servers."""
