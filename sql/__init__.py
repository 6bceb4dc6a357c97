"""SQL: from a statement's text to a bound statement.

    text ──► parser.parse ──► ParsedStatement ──► binder.bind ──► bound.Statement ──► planner
             (syntax/)        sqlglot's tree      (binding/)       (bound.py, expressions.py)

The life of a statement:

   1. `syntax.parser.parse` splits the text at its semicolons. `syntax.dialect.NyalaTokenizer` makes tokens and
      `syntax.grammar.statements.NyalaParser` a tree of sqlglot's nodes and our own (`nodes`), each with the position of
      its token. Text that cannot be parsed raises `SqlSyntaxError`.
   2. `binding.binder.bind` turns bind values into literals (`placeholders.match_parameters`). It creates the
      statement's `binding.context.Context`: text, catalog, counter of column numbers.
   3. `binding.clauses.query.bind_query` binds set operations, VALUES and LIMIT. `binding.clauses.with_clause` binds
      each query of WITH once, also recursive ones; `binding.clauses.select.bind_select` binds each SELECT.
   4. `binding.clauses.from_clause.bind_from` looks up tables and binds joins. Each use of a table gets fresh columns
      and a snapshot timestamp (`binding.clauses.system_time.bind_time`). A view is its text, bound in its own scope
      (`binding.catalog.views.view_source`). Files (`binding.clauses.external_files`), series
      (`binding.clauses.series`) and the system catalogs (`binding.system.relations`) are relations like
      tables. Names are resolved by a `binding.scope.Scope`; a subquery's scope has the surrounding one as its parent.
   5. `binding.context.Frame.bind` binds expressions bottom-up, by the handlers of `binding.expressions.expressions` and
      `binding.expressions.subqueries`: names through the scope, calls through the registry (`functions.build`),
      operators through `arithmetic.operate` and `coercion.unify`. These insert a `Cast` wherever a type changes and
      fold constants.
   6. `binding.clauses.grouping.bind_groups` turns GROUP BY into grouping sets. `binding.expressions.aggregates`
      extracts aggregate calls from the expressions around them, `binding.expressions.windows` extracts window calls.
      `binding.clauses.grouping.Grouping` rewrites the select list, HAVING and ORDER BY over the columns of both.
   7. `binding.tables.create_table.bind_create_table`, `binding.tables.alter_table.bind_alter_table`,
      `binding.changes.insert.bind_insert`, `binding.changes.update_delete.bind_update` and
      `binding.changes.copy.bind_copy` bind DDL and writes. Constants are converted to the columns' types here, so that
      an invalid one fails before execution. Written rows always come from a query: `binding.changes.on_conflict` joins
      it with the table for ON CONFLICT, `binding.changes.returning` adds the columns of RETURNING.
   8. A statement whose plan is cached is bound again with `deferred_parameters.DeferredParameter`s for its values.
   9. The bound statement goes to the planner.

Errors are raised without a position where a rule is checked; `binding.context.Context.at` adds line and caret as they
propagate.
"""

from .binding.binder import bind
from .syntax.parser import ParsedStatement, generate, parse

__all__ = ["ParsedStatement", "bind", "generate", "parse"]
