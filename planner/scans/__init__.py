"""Conditions, limits and parameters of table scans.

`scan_predicates` moves conditions into a scan as column predicates (`value_sets` for lists of values); those with a
parameter become `parameter_slots`, filled at each execution. `tablet_conditions` derives from the others which tablets
are left out. `scan_limits` pushes a LIMIT down.
"""
