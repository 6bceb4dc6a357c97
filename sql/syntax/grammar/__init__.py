"""The grammar: methods of nyala's parser on sqlglot's, by kind of statement and clause.

`statements` is the parser: it looks at the first keywords and calls the mixin that parses the rest. These are `tables`,
`writes` and `catalog` for statements, and `expressions`, `operators`, `grouping` and `windows` for clauses of queries.
Each node that an error may concern keeps its position in the text.
"""
