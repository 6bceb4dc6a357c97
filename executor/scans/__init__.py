"""Table scans: leaves of plans, and the prefetch of scans at servers.

`scan.open_table_scan` opens a leaf, one morsel for each scan token (`coalescing` joins small ones). Small scans at
servers are requested when the statement begins (`prefetch_policy`), and their rows wait in `prefetch`.
"""
