"""Sorting more rows than memory holds: sorted runs in a temporary file, merged again.

    batches ── HeldRows ──┬── all of them fit ──────────────────────────► sorted at once
                          └── they don't: Sorter ──► runs ── merged ────► batches in order, made when they are asked for

Who sorts: ORDER BY (`sorted_rows`), windows and the first rows of groups, whose rows go by partition and order.
"""
