"""Conversion of correlated subqueries to joins.

`rules.decorrelate_subqueries` calls these for each correlated subquery: `unnesting` removes the outer references,
`existence` simplifies EXISTS, `correlated_windows` and `partial_aggregates` find cheaper forms of aggregates, and
`branch_subqueries` keeps subqueries of a CASE from failing for rows that do not need them.
"""
