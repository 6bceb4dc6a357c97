"""Table scans: leaves of plans, and the prefetch of scans at servers.

`scan.open_table_scan` opens a leaf, one morsel for each scan token. `prefetch` says which small scans at servers are
requested when the statement begins, requests the tokens of a scan together, and joins small results.
"""
