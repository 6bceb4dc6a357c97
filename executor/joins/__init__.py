"""Joins: build sides, keys, pairs of rows, and the filters that builds send to scans.

join, nested_loop ──► build_collector ──┬─ fits ──────► probing, pairs
                                        └─ does not ──► spilled_join ─┬─ a partition that fits ─► probing, pairs
                                                                      └─ one that does not ─────► cut again, or blocks
"""
