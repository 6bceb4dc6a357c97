"""Text and trees: nyala's dialect on sqlglot, its statements and clauses, read and written."""
