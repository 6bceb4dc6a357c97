"""EXPLAIN: a statement's plan as text, with what happened where it was run."""

from __future__ import annotations

from ..errors import NotSupportedError
from ..planner import Actual, explain, explain_json
from ..sql import bound
from ..storage.types import STRING
from .actuals import Actuals
from .context import ExecutionContext
from .execute import execute
from .results import Planner, StatementResult, listing, planned


def explain_statement(statement: bound.Explain, context: ExecutionContext, plan: Planner) -> StatementResult:
    """The plan of the statement within: one line a row, or one row with all of it as JSON."""
    inner = statement.statement
    if not isinstance(inner, bound.WITH_QUERY):
        raise NotSupportedError(
            "EXPLAIN shows the plan of a SELECT, INSERT, UPSERT, UPDATE, DELETE or CREATE TABLE AS; other statements "
            "have none"
        )
    found = planned(inner.query, plan)
    actuals = None
    if statement.analyze:
        if not isinstance(inner, bound.SelectStatement):
            raise NotSupportedError("EXPLAIN ANALYZE runs its statement, so it takes queries only; explain without it")
        context.collect = True
        for _ in execute(found.root, context):
            pass
        actuals = actuals_for(context.actuals)
    if statement.as_json:
        return listing(["plan"], [STRING], [[explain_json(found, actuals)]])
    return listing(["plan"], [STRING], [explain(found, actuals, statement.verbose).splitlines()])


def actuals_for(actuals: Actuals) -> dict[int, Actual]:
    """What EXPLAIN ANALYZE draws: per node its rows, the time in it without its inputs, and a scan's counters."""
    result = {}
    for node in actuals.nodes():
        actual = actuals.of(node)
        below = sum(found.seconds for child in node.children() if (found := actuals.get(child)) is not None)
        notes = []
        if actual.counters is not None:
            counters = actual.counters
            notes.append(
                f"{counters.rows_considered:,} rows considered; pages: {counters.pages_read:,} read, "
                f"{counters.pages_skipped:,} skipped; {counters.rowgroups_skipped:,} row groups skipped"
            )
        if actual.filtered:
            notes.append(f"runtime filters: {', '.join(actual.filtered)}")
        result[id(node)] = Actual(actual.rows, max(0.0, actual.seconds - below), tuple(notes), actual.memory)
    return result
