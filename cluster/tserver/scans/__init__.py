"""Scans at tablet servers: scanners, read-ahead, fragments of plans."""
