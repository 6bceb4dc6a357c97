"""Sorting of more rows than fit in memory: sorted runs in a temporary file, merged at the end.

    batches ── HeldRows ──┬── all of them fit ────────────► sorted at once
                          └── otherwise: Sorter ──► runs ── merged ──► batches in order, produced on demand

Users are ORDER BY (`sorted_rows`), windows, and the first rows of groups, whose rows are sorted by partition and order.
"""
