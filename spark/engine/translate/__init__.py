"""Translates a logical plan to Spark SQL.

translation.py   plans: each node becomes a SELECT; the required settings of a session
block.py         a SELECT under construction
joins.py  grouping.py  windows.py    the larger nodes
expressions.py   expressions, by tables of writers: operators, numbers, text, patterns, dates, conditional, casts
aggregates.py    aggregate calls
tree.py  literals.py                 constructors of sqlglot nodes; constants
"""
