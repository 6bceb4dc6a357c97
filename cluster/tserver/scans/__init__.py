"""Scans at tablet servers.

scan_service     from a ticket to a stream            scanners         scans that clients read, resumable
scan_sources     division of a view into sources      scan_production  read-ahead on shared threads
fragments        parts of plans that run on the rows of a scan
"""
