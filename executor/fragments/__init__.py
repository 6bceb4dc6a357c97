"""Parts of a plan that tablet servers execute: conditions, projections and partial aggregates.

`fragment.Fragment` travels with a scan request. The server evaluates it over the tablet's batches (`evaluate`) and
sends rows, or groups with their states (`groups`); `remote` merges these above.
"""
