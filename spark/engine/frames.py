"""`nyala.spark.sql`: a query that nyala plans and Spark executes, as a DataFrame."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...driver.tables.timestamps import Moment, hybrid_time
from ...errors import ProgrammingError
from ...executor import ExecutionContext, LocalFiles
from ...planner import PlannerOptions, plan_query
from ...sql import bind, bound, parse
from .. import workers
from ..session import check_classic
from ..source.table_frame import store_of
from .engine import frame_of
from .query import prepare
from .translate.translation import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def sql(spark: SparkSession, text: str, url: str | Path | None = None, at: Moment | None = None) -> DataFrame:
    """A query over one snapshot of a store, as a DataFrame.

    Parameters
    ----------
    spark : SparkSession
        Its settings and views are not changed.
    text : str
        One SELECT in nyala's SQL.
    url : str or Path, optional
        The store; by default Spark's setting `spark.nyala.url`.
    at : datetime, date, str or int, optional
        The snapshot timestamp, as `Connection.at` takes it; by default the current time.

    Returns
    -------
    DataFrame
        Evaluated at each use, always as of the same snapshot. Columns have the query's names and types as in
        `nyala.spark.types`. Small tables and the keys of small build sides are read by this call.

    Raises
    ------
    StatementError, ProgrammingError
        If the text is invalid or not a query.
    NotSupportedError
        If Spark SQL cannot express a part of it with nyala's semantics.
    DataError
        If the snapshot timestamp is in the future.
    """
    check_classic(spark, "nyala.spark.sql")
    connection = workers.connection(store_of(spark, url))
    store = connection.store
    parsed = parse(text)
    if len(parsed) != 1:
        raise ProgrammingError(f"one query makes a DataFrame, and the text holds {len(parsed)} statements")
    statement = bind(parsed[0], store, None, LocalFiles(), connection.session.facts)
    if not isinstance(statement, bound.SelectStatement):
        raise ProgrammingError("a DataFrame is made of a SELECT; other statements are for a connection's execute")
    now = store.now()
    context = ExecutionContext(store, snapshot=now if at is None else hybrid_time(at, now))
    plan = plan_query(statement.query, store, PlannerOptions(fetch_late=False))
    cores = spark.sparkContext.defaultParallelism
    reached, client = workers.task_access(store_of(spark, url), {}, store)
    query = prepare(plan, context, reached, cores, client)
    translation = query.translation()
    with settings(spark):
        frame = frame_of(spark, query, translation)
        named = [frame[name].alias(column.name) for name, column in zip(translation.columns, plan.columns)]
        return frame.select(*named)
