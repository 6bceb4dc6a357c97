"""SQL: from a statement's text to a bound statement.

    text ──► parser.parse ──► ParsedStatement ──► binder.bind ──► bound.Statement ──► planner
             (syntax/)        sqlglot's tree      (binding/)       (bound.py, expressions.py)

The life of a statement:

1. `syntax.parser.parse` splits the text at its semicolons. `syntax.dialect.NyalaTokenizer` makes tokens,
   `syntax.grammar.NyalaParser` a tree of sqlglot's nodes and our own (`nodes`), each with the place of its token. What
   cannot be read is a `SqlSyntaxError`.
2. `binding.binder.bind` turns the values given for placeholders into literals (`placeholders.match_parameters`) and
   makes the statement's `binding.context.Context`: its text, its catalog, its counter of column numbers.
3. `binding.clauses.query.bind_query` binds set operations, VALUES and LIMIT, `binding.clauses.with_clause` the queries
   of WITH (each once, the recursive ones too), and each SELECT goes to `binding.clauses.select.bind_select`.
4. `binding.clauses.from_clause.bind_from` looks tables up, gives each use of one fresh columns and its time
   (`binding.clauses.system_time.bind_time`), and binds joins. A view is its text, bound in a scope of its own
   (`binding.catalog.views.view_source`); files (`binding.clauses.external_files`), series (`binding.clauses.series`)
   and `information_schema` (`binding.catalog.information_schema`) stand there like tables. What names mean from here on
   is a `binding.scope.Scope`; a subquery's scope has the surrounding one as its parent.
5. `binding.context.Frame.bind` binds expressions, bottom-up, by the handlers of `binding.expressions.expressions` and
   `binding.expressions.subqueries`: names through the scope, calls through the registry (`functions.build`), operators
   through `arithmetic.operate` and `coercion.unify`, which put a `Cast` wherever a type changes and fold what is
   constant.
6. `binding.clauses.grouping.bind_groups` makes grouping sets of GROUP BY, `binding.expressions.aggregates` takes
   aggregate calls out of the expressions around them, `binding.expressions.windows` the window calls, and
   `binding.clauses.grouping.Grouping` lifts the select list, HAVING and ORDER BY above both.
7. `binding.tables.create_table.bind_create_table`, `binding.tables.alter_table.bind_alter_table`,
   `binding.changes.insert.bind_insert`, `binding.changes.update_delete.bind_update` and
   `binding.changes.copy.bind_copy` do the same for tables and rows: constants are converted to the columns' types here,
   so that a wrong one is refused before anything runs. What is written comes from a query in any case;
   `binding.changes.on_conflict` joins it with the table for ON CONFLICT, `binding.changes.returning` adds RETURNING's
   columns.
8. A statement whose plan is to be kept is bound again with `deferred_parameters.LateParameter`s in the place of values.
9. The bound statement goes to the planner.

Errors are raised without a position where a rule is checked; `binding.context.Context.at` adds line and caret as they
propagate.
"""

from .binding.binder import bind
from .syntax.parser import ParsedStatement, generate, parse

__all__ = ["ParsedStatement", "bind", "generate", "parse"]
