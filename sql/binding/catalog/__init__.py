"""Binds statements about the catalog: views, SHOW, DESCRIBE, settings, information_schema.

`views` checks and stores the text of a view; `show` and `settings` bind to statements that need no plan.
`information_schema` binds to rows made from the catalog at the time of the query.
"""
