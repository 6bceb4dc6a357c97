"""Conditions, limits and parameters of table scans."""
