"""Registers relations with Spark: temporary views that exist while a statement is translated.

    Reading   mapInArrow over a range with one row per task: each task reads its parts in a Python worker
    Rows      few rows that were read already: a local relation

A DataFrame keeps the plans of its views, so they are dropped as soon as it is created.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from ....model.lazy_dataclass import dataclass
from ... import types
from .tasks import Reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows that were read already, in Spark's types."""

    columns: list[types.NamedType]
    table: pa.Table


Relation: TypeAlias = Reading | Rows


def fresh_prefix() -> str:
    """A prefix for names that no other statement uses."""
    return f"nyala_{uuid.uuid4().hex[:12]}"


@contextmanager
def views(spark: SparkSession, relations: Iterable[tuple[str, Relation]]) -> Iterator[None]:
    """Registers the relations as temporary views of these names while the block runs."""
    made: list[str] = []
    try:
        with _active_as_before():
            for name, relation in relations:
                _frame(spark, relation).createOrReplaceTempView(name)
                made.append(name)
        yield
    finally:
        for name in made:
            spark.catalog.dropTempView(name)


@contextmanager
def _active_as_before() -> Iterator[None]:
    """Keeps the user's session active.

    `createDataFrame` makes its own session the active one, by which for instance streams find data sources.
    """
    from pyspark.sql import SparkSession

    before = SparkSession._activeSession
    try:
        yield
    finally:
        if before is not None and SparkSession._activeSession is not before:
            SparkSession._activeSession = before
            before._jvm.SparkSession.setActiveSession(before._jsparkSession)


def _frame(spark: SparkSession, relation: Relation) -> DataFrame:
    schema = types.spark_schema(relation.columns)
    if isinstance(relation, Rows):
        return spark.createDataFrame(relation.table, schema)

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return relation(numbers)

    return spark.range(0, relation.tasks, 1, relation.tasks).mapInArrow(read, schema)
