"""Execution of statements: queries and their results, changes, the catalog, EXPLAIN and SHOW.

`statements.run` takes a bound statement and returns `results.StatementResult`: a stream of batches or a count.
`changing` writes the rows of a query to the store and resolves conflicts with other writers; `single_rows` does the
same for one row by primary key, without a plan.
"""
