"""From a logical plan to Spark SQL.

translation.py   plans: each node a SELECT; what a session must be set to
block.py         a SELECT under construction
joins.py  grouping.py  windows.py    the larger nodes
expressions.py   expressions, by tables of writers: operators, numbers, text, patterns, dates, conditional, casts
aggregates.py    aggregate calls
tree.py  literals.py                 makers of sqlglot nodes; constants
"""
