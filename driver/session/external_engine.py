"""Statements whose query an engine runs in the place of nyala's executor.

    SELECT                                     the engine's rows
    EXPLAIN SELECT                             the engine's account of what it would do
    INSERT, CREATE TABLE AS, COPY of a query   the engine's rows, written by nyala's executor

The executor takes an engine's rows for those of a shared subplan that has run already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from ...errors import NotSupportedError
from ...executor import ExecutionContext, StatementResult, listing
from ...executor.run.stream import Morsel
from ...executor.statements.statements import run as run_statement
from ...model.types import STRING
from ...model.vectors.vector import Batch, vector_from_arrow
from ...planner import Plan
from ...planner.algebra import physical
from ...planner.algebra.logical import FileScan, Node, Scan, Shared
from ...planner.algebra.trees import nodes
from ...sql import bound
from .engines import Engine

_REPLACED: Final = -1
"""The key of the subplan whose rows an engine makes; those of plans count from 1."""
_RUN_ELSEWHERE: Final = (
    bound.SelectStatement | bound.InsertStatement | bound.MergeStatement | bound.CreateTableAs | bound.CopyTo
)
"""UPDATE and DELETE look up the rows that they change, so nyala's executor runs them."""


def run(engine: Engine, statement: bound.Statement, plan: Plan | None, context: ExecutionContext) -> StatementResult:
    """Run a statement, its query by an engine.

    Raises `NotSupportedError` for EXPLAIN in forms that only nyala's own executor has.
    """
    inner = statement.statement if isinstance(statement, bound.Explain) else statement
    if isinstance(inner, bound.SelectStatement) and inner.locks:
        return run_statement(statement, context, plan)
    if plan is None or not isinstance(inner, _RUN_ELSEWHERE) or not reads_tables(plan):
        return run_statement(statement, context, plan)
    if isinstance(statement, bound.Explain):
        return listing(["plan"], [STRING], [_explained(engine, statement, plan, context)])
    if isinstance(statement, bound.SelectStatement):
        return StatementResult(plan.columns, engine.batches(plan, context))
    return run_statement(statement, context, _replaced(engine, plan, context))


def _explained(engine: Engine, statement: bound.Explain, plan: Plan, context: ExecutionContext) -> list[str]:
    if statement.analyze or statement.as_json:
        raise NotSupportedError(
            "EXPLAIN ANALYZE and EXPLAIN (FORMAT JSON) are about nyala's own executor: SET engine = nyala first"
        )
    from ...executor.statements.explaining import written_as

    inner = statement.statement
    head = [] if isinstance(inner, bound.SelectStatement) else [written_as(inner)]
    return head + engine.explain(plan, context).splitlines()


def reads_tables(plan: Plan) -> bool:
    """True if a query reads tables. Others (`SELECT 1`, INSERT ... VALUES) are done before an engine has started."""

    def reads(root: Node) -> bool:
        return any(
            isinstance(node, (Scan, FileScan)) or (isinstance(node, Shared) and reads(node.source))
            for node in nodes(root)
        )

    return reads(plan.logical)


def _replaced(engine: Engine, plan: Plan, context: ExecutionContext) -> Plan:
    """A plan for the executor that gives the engine's rows: a shared subplan that has run already, elsewhere."""
    root = physical.Shared(columns=plan.columns, estimate=plan.root.estimate, key=_REPLACED, source=plan.root)
    context.shared[_REPLACED] = (Morsel(partial(_rows, engine, plan, replace(context, shared={}))),)
    return replace(plan, root=root)


def _rows(engine: Engine, plan: Plan, context: ExecutionContext) -> Iterator[Batch]:
    for batch in engine.batches(plan, context):
        vectors = [vector_from_arrow(c.type, array) for c, array in zip(plan.columns, batch.columns, strict=True)]
        yield Batch(vectors, batch.num_rows)
