"""Table scans: leaves of plans, and the prefetch of scans at servers."""
