"""Binds expressions: operators, calls, aggregates, windows, subqueries.

`expressions` binds a tree from the leaves up and gives every node its type, with casts where operands differ. Calls go
to the function registry; `aggregates`, `windows` and `subqueries` lift their parts out of the expression.
"""
