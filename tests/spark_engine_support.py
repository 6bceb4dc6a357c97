"""The engine `spark` without Spark: relations read task by task in this process, the rest of the plan run by nyala."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from nyala.executor import ExecutionContext, LocalFiles
from nyala.executor.execute import execute
from nyala.executor.run.stream import Morsel
from nyala.model.vectors.vector import Batch, vector_from_arrow
from nyala.planner import plan_query
from nyala.planner.algebra.logical import Node, Shared
from nyala.planner.algebra.trees import Numbers
from nyala.planner.context import Context
from nyala.planner.estimates.cardinality import Estimator
from nyala.planner.physical.physical_planner import PhysicalPlanner
from nyala.spark.engine.query import Query, QuerySource, prepare
from nyala.spark.engine.relations.views import Rows
from nyala.sql import bind, parse

URL = "nyala://nobody:1/"


def planned(store, text):
    """The plan of a query."""
    statement = bind(parse(text)[0], store, None, LocalFiles())
    return plan_query(statement.query, store)


def prepared(store, text, cores=2, snapshot=None) -> Query:
    """The query as the engine prepares it."""
    context = ExecutionContext(store, threads=1, snapshot=snapshot or store.now())
    return prepare(planned(store, text), context, URL, cores)


def task_rows(store, source: QuerySource) -> list[pa.Table]:
    """The rows of each task of a relation, or those that are here."""
    relation = source.relation
    if isinstance(relation, Rows):
        return [relation.table]
    return [
        pa.Table.from_batches(relation.rows(store, task), relation_schema(relation)) for task in range(relation.tasks)
    ]


def relation_schema(relation) -> pa.Schema:
    from nyala.spark.types import arrow_schema

    return arrow_schema(relation.columns)


def answer(store, text, cores=2, seen=None) -> pa.Table:
    """The query's rows: relations by their tasks, the rest by the executor. `seen` is given the prepared query."""
    plan = planned(store, text)
    query = prepared(store, text, cores)
    if seen is not None:
        seen.append(query)
    context = ExecutionContext(store, threads=1)
    estimator = Estimator(store)
    root = _with_leaves(query.root, query, store, context, {})
    planner = PhysicalPlanner(Context(estimator, Numbers(1_000_000)))
    names = [column.name for column in plan.columns]
    batches = [batch.to_arrow(names) for batch in execute(planner.plan(root), context)]
    schema = pa.schema([pa.field(column.name, column.type.arrow) for column in plan.columns])
    return pa.Table.from_batches([pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in batches], schema)


def _with_leaves(node: Node, query: Query, store, context, done: dict[int, Node]) -> Node:
    """The plan with the rows of relations in the place of the nodes that they stand for."""
    source = query.sources.get(id(node))
    if source is not None:
        key = 1_000_000 + len(context.shared)
        batches = [
            _batch(node, batch) for table in task_rows(store, source) for batch in table.to_batches() if batch.num_rows
        ]
        context.shared[key] = tuple(Morsel(lambda batch=batch: iter((batch,))) for batch in batches)
        return Shared(key, node, node.columns)
    if isinstance(node, Shared):
        if node.key not in done:
            done[node.key] = _with_leaves(node.source, query, store, context, done)
        return replace(node, source=done[node.key])
    return node.map_children(lambda child: _with_leaves(child, query, store, context, done))


def _batch(node: Node, batch: pa.RecordBatch) -> Batch:
    # A relation of a plan's node without columns has one all the same, which counts its rows.
    pairs = zip(node.columns, batch.columns, strict=False)
    return Batch([vector_from_arrow(column.type, values) for column, values in pairs], batch.num_rows)
