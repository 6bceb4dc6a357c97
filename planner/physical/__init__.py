"""Physical planning: the operator of each node, join order, build sides.

`physical_planner` turns the logical plan into operators from the leaves up. `join_order` orders clusters of inner
joins, `merge_joins` takes a merge join where both sides come in key order, and `shared_build_sides` finds equal small
build sides, which are built once.
"""
