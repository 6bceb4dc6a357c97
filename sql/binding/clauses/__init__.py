"""Binds the clauses of queries: WITH, FROM, SELECT, GROUP BY, set operations."""
