"""Arguments of Spark's own source `jdbc`, for tables behind a door: one snapshot for all tasks.

    spark.read.jdbc(**jdbc_partitions(spark, url, "orders", properties))        a task per tablet
    spark.read.jdbc(url, jdbc_snapshot(spark, url, "orders", properties), column="id", ...)

Spark opens a connection for each task, and each would read the latest rows. So the name of the table is given with a
time, `orders FOR SYSTEM_TIME AS OF 7355779465155805184`. Tablets and time come from `nyala_catalog.partitions`, by
Spark's own driver: this process needs no other way to the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..driver.tables.timestamps import Moment, hybrid_time
from ..errors import InterfaceError, NotSupportedError, OperationalError, UnknownTable
from ..model.lazy_dataclass import dataclass
from ..model.store import Timestamp

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

DRIVERS: Final[Mapping[str, str]] = {
    "jdbc:postgresql:": "org.postgresql.Driver",
    "jdbc:arrow-flight-sql:": "org.apache.arrow.driver.jdbc.ArrowFlightJdbcDriver",
}
"""Classes of drivers by the start of a URL. Spark finds those of its jars only if their class is given."""
MOST_PIECES: Final = 1000


@dataclass(frozen=True, slots=True)
class JdbcTable:
    """A table behind a door.

    Attributes
    ----------
    name : str
        The table as SQL has it, with a time: what Spark calls `dbtable`.
    conditions : tuple of str
        Of each tablet.
    key : str
        The first column of the primary key, as SQL has it.
    """

    name: str
    conditions: tuple[str, ...]
    key: str


def jdbc_partitions(
    spark: SparkSession,
    url: str,
    table: str,
    properties: Mapping[str, str] | None = None,
    at: Moment | None = None,
    pieces: int = 1,
) -> dict[str, Any]:
    """The arguments of `spark.read.jdbc` that read a table by tablets, all at one snapshot.

    Parameters
    ----------
    spark : SparkSession
    url : str
        Of the door: `jdbc:postgresql://host:port/database`, or `jdbc:arrow-flight-sql://host:port/?...`.
    table : str
        The name as SQL has it, also with its schema.
    properties : mapping of str to str, optional
        As for `spark.read.jdbc`: user, password, and any option of driver or source. The class of the driver is added.
    at : datetime, date, str or int, optional
        The snapshot timestamp, as `Connection.at` takes it; by default the store's current time.
    pieces : int
        Number of tasks for each tablet, at least 1. They divide its rows evenly by the first key column, which is read
        for that; there are fewer if it has few values.

    Returns
    -------
    dict
        url, table, predicates (one for each task) and properties.

    Raises
    ------
    UnknownTable
    NotSupportedError
        The name is that of a view or of a temporary table, which have no tablets and no past.
    InterfaceError
        The URL is not that of a door.
    DataError
        The time is in the future.
    OperationalError
        The door cannot be reached, refuses the user, or is not one of nyala.
    """
    if not 1 <= pieces <= MOST_PIECES:
        raise InterfaceError(f"pieces={pieces}: a tablet is read by 1 to {MOST_PIECES} tasks")
    known = _with_driver(url, properties)
    found = _find(spark, url, table, known, at)
    predicates = list(found.conditions)
    if pieces > 1:
        predicates = _divided(spark, url, found, known, pieces)
    return {"url": url, "table": found.name, "predicates": predicates, "properties": known}


def jdbc_snapshot(
    spark: SparkSession,
    url: str,
    table: str,
    properties: Mapping[str, str] | None = None,
    at: Moment | None = None,
) -> str:
    """The name of a table with a time, for `dbtable`, or `table` of `spark.read.jdbc`: all tasks then read one
    snapshot, also those of partitionColumn, lowerBound and upperBound. Parameters and errors are those of
    `jdbc_partitions`."""
    return _find(spark, url, table, _with_driver(url, properties), at).name


def _with_driver(url: str, properties: Mapping[str, str] | None) -> dict[str, str]:
    for start, driver in DRIVERS.items():
        if str(url).startswith(start):
            return {"driver": driver, **(properties or {})}
    raise InterfaceError(
        f"{url!r} is not the URL of a door: it begins with {' or '.join(DRIVERS)}; for a directory or a cluster's "
        'masters use spark.read.format("nyala")'
    )


def _find(spark: SparkSession, url: str, table: str, properties: Mapping[str, str], at: Moment | None) -> JdbcTable:
    name = table.replace("'", "''")
    rows = _rows(
        spark,
        url,
        properties,
        "SELECT c.relkind, p.sql_name, p.number, p.condition, p.key_column, p.snapshot FROM pg_catalog.pg_class c "
        "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace LEFT JOIN nyala_catalog.partitions p "
        "ON p.table_schema = n.nspname AND p.table_name = c.relname "
        f"WHERE c.oid = to_regclass('{name}')::oid",
        f"the partitions of {table}",
    )
    if not rows:
        raise UnknownTable(f"table {table} does not exist at {url}")
    first = rows[0]
    if first.number is None:
        what = "a view" if first.relkind == "v" else "a temporary table"
        raise NotSupportedError(f"{table} is {what}, which has neither tablets nor a past: read it without partitions")
    now = Timestamp(first.snapshot)
    time = now if at is None else hybrid_time(at, now)
    rows.sort(key=lambda row: row.number)
    conditions = tuple(row.condition for row in rows)
    return JdbcTable(f"{first.sql_name} FOR SYSTEM_TIME AS OF {time}", conditions, first.key_column)


def _divided(spark: SparkSession, url: str, table: JdbcTable, properties: Mapping[str, str], pieces: int) -> list[str]:
    """The conditions of the tablets, each with ranges of the first key column."""
    cuts = [
        f"CAST(quantile_disc({table.key}, {number}.0 / {pieces}) AS STRING) AS c{number}" for number in range(1, pieces)
    ]
    queries = [
        f"SELECT {number} AS tablet, {', '.join(cuts)} FROM {table.name} WHERE {condition}"
        for number, condition in enumerate(table.conditions)
    ]
    what = f"values that divide {table.name}"
    rows = _rows(spark, url, properties, " UNION ALL ".join(queries), what)
    result: list[str] = []
    for row in sorted(rows, key=lambda row: row.tablet):
        # PostgreSQL's clients cannot send a character 0.
        bounds = [text for text in dict.fromkeys(tuple(row)[1:]) if text is not None and "\0" not in text]
        result += [f"({table.conditions[row.tablet]}){part}" for part in _ranges(table.key, bounds)]
    return result


def _ranges(column: str, bounds: Sequence[str]) -> list[str]:
    """Conditions that divide all values at the bounds, which ascend."""
    texts = ["'" + bound.replace("'", "''") + "'" for bound in bounds]
    lowers = ["", *(f" AND {column} >= {text}" for text in texts)]
    uppers = [*(f" AND {column} < {text}" for text in texts), ""]
    return [lower + upper for lower, upper in zip(lowers, uppers, strict=True)]


def _rows(spark: SparkSession, url: str, properties: Mapping[str, str], query: str, what: str) -> list[Row]:
    """The rows of a query by Spark's driver. Raises `OperationalError` with the driver's message."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        return list(spark.read.jdbc(url, f"({query}) AS found", properties=dict(properties)).collect())
    except (Py4JJavaError, PySparkException) as error:
        raise OperationalError(f"{what} cannot be read from {url}: {_cause(error)}") from error


def _cause(error: Exception) -> str:
    """The message of the driver, which Spark wraps; Spark's own if the session is of Spark Connect."""
    thrown: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if thrown is None:
        return str(error).strip()
    while thrown.getCause() is not None:
        thrown = thrown.getCause()
    return str(thrown.getMessage() or thrown.toString()).strip()
