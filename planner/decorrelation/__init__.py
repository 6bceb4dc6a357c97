"""Conversion of correlated subqueries to joins."""
