"""Statements that run: queries and their results, changes, the catalog, EXPLAIN and SHOW."""
