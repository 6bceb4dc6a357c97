"""Parses SQL text into trees and generates text from them: nyala's dialect on sqlglot, its statements and clauses.

`parser.parse` splits a text into statements (`tokenizing`), rejects those that nest too deeply (`token_depth`), and
has the `grammar` of `dialect` build a tree of sqlglot's nodes and of `nodes`. `generator` writes a tree back, for
views, SHOW CREATE and other stores. `not_supported` says what nyala has instead of other databases' syntax.
"""
