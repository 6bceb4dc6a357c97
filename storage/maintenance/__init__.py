"""Work in the background: flushes, compactions, what is forgotten, and which of them comes next.

`manager` collects the `maintenance_ops` of each tablet, and `maintenance_policy` picks the one that gains most.
`tablet_flush` empties memory, `delta_compaction` and `rowset_compaction` merge files (`delta_policy`,
`compaction_policy` choose them), `history` removes the past below the mark. `precedence` keeps them out of the way of
COMPACT TABLE. `throttle` slows merges down while clients work, `memory` writers while it is short. `status` has all of
it as plain data, `observed` as metrics and rows.
"""
