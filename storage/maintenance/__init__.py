"""Work in the background: flushes, compactions, what is forgotten, and which of them comes next.

`manager` asks each tablet for its `maintenance_ops`, and `maintenance_policy` takes the one that gains most.
`tablet_flush` empties memory, `delta_compaction` and `rowset_compaction` merge files (`delta_policy`,
`compaction_policy` choose them), `history` removes the past below the mark. `throttle` slows merges down while clients
work, `memory` writers while it is short.
"""
