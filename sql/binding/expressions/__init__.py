"""Binds expressions: operators, calls, aggregates, windows, subqueries."""
