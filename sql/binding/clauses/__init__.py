"""Binds the clauses of queries: WITH, FROM, SELECT, GROUP BY, set operations.

`query` binds a whole query, `select` one block of it in the order in which SQL evaluates it: `from_clause` opens the
scope, `grouping` replaces it by the grouped columns, and ORDER BY sees the output names, too.
"""
