"""Binds syntax trees, clause by clause: resolves names, infers types, and produces bound statements.

`binder.bind` takes a tree to the module of its clause. A `context.Frame` binds expressions within a `scope.Scope` of
visible columns; names of tables go through `names`. The result, `sql.bound`, has types and numbered columns, and no
name is looked up again.
"""
