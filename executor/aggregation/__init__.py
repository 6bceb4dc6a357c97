"""GROUP BY: the grouping of rows, and the states of aggregate functions."""
