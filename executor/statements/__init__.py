"""Execution of statements: queries and their results, changes, the catalog, EXPLAIN and SHOW."""
