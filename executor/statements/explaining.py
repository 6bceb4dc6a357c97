"""EXPLAIN: a statement's plan as text or JSON, with run-time statistics if it was executed.

For a statement that writes, the first line names the change: `Insert into t (k, v)`, `Update t set v`. For a statement
about one row, the first line names the row path (`single_rows`); its plan, which is not used, is drawn with VERBOSE.
EXPLAIN ANALYZE executes its statement, also if that writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any, TypeAlias

from ...errors import NotSupportedError
from ...model.schema import Table
from ...model.store import Op
from ...model.types import STRING
from ...planner import Actual, explain, explain_json
from ...planner.algebra.physical import PhysicalNode, TableScan, nodes
from ...planner.explaining.expression_text import to_sql
from ...sql import bound
from ...sql.expressions import Literal
from ..execute import execute
from ..run.context import ExecutionContext
from ..run.operator_stats import actuals_for
from .results import Planner, StatementResult, listing, planned
from .single_rows import RowRead, SingleRow, single_row

Run: TypeAlias = Callable[[bound.Statement, ExecutionContext, Planner], StatementResult]
"""Executes a statement: `statements.run`."""
_PHYSICAL = "-- physical plan\n"


def explain_statement(statement: bound.Explain, context: ExecutionContext, plan: Planner, run: Run) -> StatementResult:
    """Explain the inner statement: one line a row, or one row with the whole plan as JSON."""
    inner = statement.statement
    if not isinstance(inner, bound.WITH_QUERY):
        raise NotSupportedError(
            "EXPLAIN shows the plan of a SELECT, INSERT, UPSERT, UPDATE, DELETE, CREATE TABLE AS or COPY ... TO; other "
            "statements have none"
        )
    single = single_row(inner) if context.by_row else None
    if single is not None and all(isinstance(value, Literal) for value in single.values):
        return _explain_row(statement, single, context, plan)
    found = planned(inner.query, plan)
    actuals, written = None, None
    if statement.analyze:
        context.collect = True
        if isinstance(inner, bound.SelectStatement):
            for _ in execute(found.root, context):
                pass
        else:
            written = run(inner, context, found).rowcount
        actuals = with_own_rows(actuals_for(context.actuals), found.root, context)
    head = None if isinstance(inner, bound.SelectStatement) else written_as(inner)
    if statement.as_json:
        return listing(["plan"], [STRING], [[_json(head, written, explain_json(found, actuals, statement.verbose))]])
    return listing(["plan"], [STRING], [_text(head, written, explain(found, actuals, statement.verbose)).splitlines()])


def _explain_row(
    statement: bound.Explain, single: SingleRow, context: ExecutionContext, plan: Planner
) -> StatementResult:
    inner = statement.statement
    assert isinstance(inner, bound.SelectStatement | bound.InsertStatement | bound.ChangeStatement)
    what = (
        f"Read{' and lock' if single.locks else ''} {', '.join(single.names)} of {single.table.name}"
        if isinstance(single, RowRead)
        else written_as(inner)
    )
    head = f"{what} by primary key, without a plan"
    body = inner.query.body
    condition = body.where if isinstance(body, bound.Select) else None
    details = [] if condition is None else [f"where {to_sql(condition)}"]
    rows, counted = None, ""
    if statement.analyze:
        began = perf_counter()
        rows = _run_row(single, context)
        counted = f"  ({rows:,} rows, {(perf_counter() - began) * 1000:,.1f} ms)"
    if statement.as_json:
        outline: dict[str, Any] = {"operator": head.partition(" ")[0], "text": head, "details": details}
        outline |= {} if rows is None else {"actual_rows": rows}
        return listing(["plan"], [STRING], [[json.dumps(outline | {"inputs": []}, indent=2)]])
    if statement.analyze and (own := own_rows(single.table, context)) is not None:
        details.append(own)
    lines = [f"{head}{counted}", *(f"  · {detail}" for detail in details)]
    if statement.verbose:
        lines += ["-- the plan that is not used", *explain(planned(inner.query, plan), None, True).splitlines()]
    return listing(["plan"], [STRING], [lines])


def _run_row(single: SingleRow, context: ExecutionContext) -> int:
    """Execute the statement; return the number of rows that it returns or changes."""
    cells = [value.type.to_python(value.value) for value in single.values if isinstance(value, Literal)]
    if isinstance(single, RowRead):
        return int(single.run(context.store, cells, context.snapshot, context.transaction) is not None)
    return single.run(context.store, cells)


def written_as(statement: bound.Statement) -> str:
    """Describe the change that a statement makes with the rows of its plan, in one line."""
    if isinstance(statement, bound.CreateTableAs):
        return f"Create table {statement.definition.name} ({', '.join(statement.columns)})"
    if isinstance(statement, bound.CopyTo):
        return f"Copy to {statement.path}"
    assert isinstance(statement, bound.InsertStatement | bound.MergeStatement | bound.ChangeStatement)
    name, columns = statement.table.name, ", ".join(statement.columns)
    if isinstance(statement, bound.MergeStatement):
        if statement.repeated == "last":
            return f"Upsert into {name} ({columns})"
        updated = f"update {', '.join(statement.updated)}" if statement.updated else "do nothing"
        return f"Insert into {name} ({columns}), or {updated}"
    if statement.op is Op.DELETE:
        return f"Delete from {name}"
    if statement.op is Op.UPDATE:
        key = {column.name for column in statement.table.schema.key}
        return f"Update {name} set {', '.join(column for column in statement.columns if column not in key)}"
    verb = "Upsert" if statement.op is Op.UPSERT else "Insert"
    return f"{verb} into {name} ({columns})" + (" where the key is new" if statement.op is Op.INSERT_IGNORE else "")


def _text(head: str | None, written: int | None, plan: str) -> str:
    """Return the plan's text below the line about the change."""
    if head is None:
        return plan
    before, title, physical = plan.rpartition(_PHYSICAL)
    counted = "" if written is None else f"  ({written:,} rows)"
    below = "\n".join(f"  {line}" for line in physical.splitlines())
    return f"{before}{title}{head}{counted}\n{below}"


def _json(head: str | None, written: int | None, plan: str) -> str:
    if head is None:
        return plan
    outline: dict[str, Any] = {"operator": head.partition(" ")[0], "text": head, "details": []}
    if written is not None:
        outline["actual_rows"] = written
    return json.dumps(outline | {"inputs": [json.loads(plan)]}, indent=2)


def own_rows(table: Table, context: ExecutionContext) -> str | None:
    """The number of the table's rows that the open transaction has written or deleted, in words; None for none."""
    own = 0 if context.transaction is None else context.transaction.own_rows(table)
    return f"{own:,} own rows of the transaction" if own else None


def with_own_rows(actuals: dict[int, Actual], root: PhysicalNode, context: ExecutionContext) -> dict[int, Actual]:
    """The statistics with a note at each scan of a table that the open transaction has changed."""
    for node in nodes(root) if context.transaction is not None else ():
        actual = actuals.get(node.number)
        if isinstance(node, TableScan) and actual is not None and (own := own_rows(node.table, context)) is not None:
            actuals[node.number] = replace(actual, notes=(*actual.notes, own))
    return actuals
