"""The options of the data source: one table, which parses, explains and documents them.

Names are JDBC's where JDBC has one, and Kudu's otherwise; Spark does not tell capitals apart. `parse` checks what was
given for one use: unknown names, options of another use and impossible values are an `InterfaceError` that says what
there is.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...cluster.client.options import REPLICA_SELECTIONS
from ...errors import Error, InterfaceError, did_you_mean
from ...sql.settings import parse_bytes


class Use(enum.Enum):
    """What a data source is asked to do."""

    READ = "read"
    WRITE = "write"
    STREAM = "stream read"
    SINK = "stream write"


READS: Final = frozenset((Use.READ, Use.STREAM))
WRITES: Final = frozenset((Use.WRITE, Use.SINK))
VIEWED_WRITES: Final = WRITES | {Use.READ}
"""Of options that say how rows are written, and may be those of a view, which is read as well: INSERT INTO it."""
ALL: Final = frozenset(Use)

Reader = Callable[[str], Any]
"""Turns the text of an option into its value; `ValueError` says what is wanted instead."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: `default` is its value where it is not given, None where there is none; `read` turns text into it."""

    name: str
    meaning: str
    uses: frozenset[Use] = ALL
    default: Any = None
    read: Reader = str
    shown_default: str = ""


# ---- readers of values ---------------------------------------------------------------------------------------------


def whole_number(least: int) -> Reader:
    """Whole numbers from `least`."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise ValueError(f"a whole number of at least {least} is needed")
        return value

    return read


def choice(*values: str) -> Reader:
    """One of some words, whatever their capitals."""

    def read(text: str) -> str:
        for value in values:
            if value.lower() == text.strip().lower():
                return value
        raise ValueError("it is one of " + ", ".join(values) + did_you_mean(text, values, "there are").rstrip())

    return read


def flag(text: str) -> bool:
    """`true` or `false`."""
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("it is true or false")
    return text.strip().lower() == "true"


def seconds(text: str) -> float:
    """A number of seconds above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise ValueError("a number of seconds above 0 is needed")
    return value


def size(text: str) -> int:
    """Bytes, or a text such as 64MB."""
    found = parse_bytes(text, "")
    if not isinstance(found, int) or found < 1:
        raise ValueError("a size is needed, such as 64MB")
    return found


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them; those with commas or spaces of their own in double quotes, as in SQL."""
    found: list[str] = []
    rest = text
    while True:
        name, rest = _name(rest.strip())
        found.append(name)
        if not rest:
            break
        if not rest.startswith(","):
            raise ValueError("names are wanted, with commas between them")
        rest = rest[1:]
    if len(set(found)) < len(found):
        raise ValueError("each name may stand there once")
    return tuple(found)


def _name(text: str) -> tuple[str, str]:
    """The name at the beginning of a text, and what follows it."""
    if text.startswith('"'):
        end = 1
        while True:
            end = text.find('"', end)
            if end < 0:
                raise ValueError('a name in quotes does not end: " is missing')
            if not text.startswith('""', end):
                return text[1:end].replace('""', '"'), text[end + 1 :].strip()
            end += 2
    name, comma, rest = text.partition(",")
    if not name.strip():
        raise ValueError("names are wanted, with commas between them")
    return name.strip(), comma + rest


def moment(text: str) -> int | str:
    """A hybrid timestamp (digits), or what spells a point in time."""
    plain = text.strip()
    return int(plain) if plain.isdigit() else plain


OPERATIONS: Final = (
    "insert",
    "insert_ignore",
    "upsert",
    "upsert_ignore",
    "update",
    "update_ignore",
    "delete",
    "delete_ignore",
)
ISOLATION_LEVELS: Final = ("NONE", "READ_UNCOMMITTED", "READ_COMMITTED", "REPEATABLE_READ", "SNAPSHOT", "SERIALIZABLE")

# ---- the table -----------------------------------------------------------------------------------------------------

OPTIONS: Final = (
    Option(
        "url",
        "the store: a cluster by its masters, `nyala://host:port,host:port/`, or a directory, which is reached through "
        "the process that has it open; `load(...)` says the same",
    ),
    Option(
        "dbtable",
        'the table or view; `main.orders` and `"orders"` are `orders`. To read, also a query in brackets, '
        "`(SELECT ...) t`",
    ),
    Option(
        "query",
        "in place of `dbtable`: any SELECT in nyala's SQL. One that filters and projects a single table is read in "
        "parallel; any other is run by nyala, in one task",
        frozenset((Use.READ,)),
    ),
    Option("columns", "the columns to read, with commas between them", READS, None, names, "all"),
    Option("where", "read only rows for which this condition, in nyala's SQL, is true", READS, None, str, "all rows"),
    Option(
        "asOf",
        "read the table as it was then: a timestamp in UTC, or a hybrid timestamp as `Connection.last_timestamp` "
        "gives it",
        frozenset((Use.READ,)),
        None,
        moment,
        "when Spark plans the relation",
    ),
    Option(
        "numPartitions",
        "at most so many tasks read; tablets are divided where there are fewer of them",
        frozenset((Use.READ,)),
        None,
        whole_number(1),
        "one for each tablet, or part of it",
    ),
    Option(
        "splitSize",
        "a task reads at most about so many bytes of a tablet, as they are on its disk; larger tablets are divided",
        frozenset((Use.READ,)),
        128 << 20,
        size,
        "`128MB`",
    ),
    Option("fetchsize", "rows in a batch on its way into Spark, at most", READS, 65_536, whole_number(1)),
    Option(
        "isolationLevel",
        "JDBC's names are understood, and make no difference: all tasks of a relation read one snapshot, which is "
        "SERIALIZABLE for a reader",
        frozenset((Use.READ,)),
        "SNAPSHOT",
        choice(*ISOLATION_LEVELS),
    ),
    Option(
        "pushdown",
        "take filters from Spark (with `spark.sql.python.filterPushdown.enabled=true`). **Dangerous**: Spark 4.3 mixes "
        "up the filters of several uses of one relation, and a self-join, a union or a view used twice then gives "
        "*wrong rows* without a word. Only for a relation that is used once; `where` has no such trouble",
        frozenset((Use.READ,)),
        False,
        flag,
    ),
    Option(
        "preferTimestampNTZ",
        "TIMESTAMP is Spark's `timestamp_ntz`; with `false` its `timestamp`, the moment in UTC",
        READS,
        True,
        flag,
    ),
    Option(
        "startingTimestamp",
        "read changes, not rows: every insert, update and delete after this time, with the columns `_change` and "
        "`_changed_at`. `earliest` (the rows that there are at first, as inserts, and then what happens to them), "
        "`latest` (a stream: what happens from now on), a timestamp in UTC or a hybrid one. A stream goes on where its "
        "checkpoint says; a batch read ends at `asOf`",
        READS,
        None,
        moment,
        "rows are read; a stream needs it",
    ),
    Option(
        "maxRowsPerTrigger",
        "a batch of a stream has about so many changes at most: it ends where a write ended, so only one write of more "
        "rows exceeds it. With `earliest`, the rows that there are come in batches of this size, by key. "
        "`maxOffsetsPerTrigger` is the same",
        READS,
        None,
        whole_number(1),
        "all that has happened",
    ),
    Option(
        "deadline",
        "seconds that a write of one batch, or the scan of one task, may wait in vain for servers, all of its requests "
        "together",
        ALL,
        30.0,
        seconds,
    ),
    Option("connectDeadline", "seconds until a master must have answered", ALL, 10.0, seconds),
    Option(
        "tlsCa",
        "of a cluster with TLS: the PEM file with its CA's certificate; with it go `tlsCert` and `tlsKey`. The files "
        "are wherever tasks run",
        ALL,
        None,
        str,
        "what NYALA_TLS_CA names where tasks run",
    ),
    Option("tlsCert", "the PEM file with the client's certificate", ALL, None, str, "NYALA_TLS_CERT"),
    Option("tlsKey", "the PEM file with the key of that certificate", ALL, None, str, "NYALA_TLS_KEY"),
    Option(
        "operation",
        "what becomes of the rows: `insert` (a key that is there is an error, and nothing is written then), "
        "`insert_ignore` (it is left alone), `upsert` (the row is changed), `update` and `delete` (a key that is not "
        "there is an error), `update_ignore`, `delete_ignore`, `upsert_ignore`",
        VIEWED_WRITES,
        "insert",
        choice(*OPERATIONS),
    ),
    Option("batchsize", "rows in one write to the store, at most", VIEWED_WRITES, 65_536, whole_number(1)),
    Option(
        "idempotencyKey",
        "a name for this job: one that has been published under it already is not written again, and one whose "
        "publication was interrupted is finished",
        frozenset((Use.WRITE,)),
        None,
        str,
        "none: each run is a job of its own",
    ),
    Option(
        "staged",
        "rows become visible when all tasks have succeeded. With `false` tasks write into the table themselves: "
        "faster, but what a failed job has written stays, so only the operations that may be repeated can do so",
        VIEWED_WRITES,
        True,
        flag,
    ),
    Option(
        "primaryKey",
        "make the table, where there is none, with the DataFrame's columns and this primary key; columns with commas "
        "between them",
        WRITES,
        None,
        names,
        "the table must be there",
    ),
    Option(
        "distributeBy",
        "how a table that is made is distributed, in the words of CREATE TABLE: `HASH (id) INTO 4 BUCKETS`",
        WRITES,
        None,
        str,
        "one tablet",
    ),
    Option(
        "replicas", "how many replicas a table that is made has", WRITES, None, whole_number(1), "the cluster's default"
    ),
    Option(
        "replicaSelection",
        "whom scans ask first: `auto` is the leader for what is of the last seconds, and the closest for the past",
        READS,
        "auto",
        choice(*REPLICA_SELECTIONS),
    ),
)
IGNORED: Final = frozenset(
    (
        "checkpointlocation",
        "collation",
        "comment",
        "external",
        "is_managed_location",
        "location",
        "outputmode",
        "owner",
        "partitionoverwritemode",
        "provider",
        "queryname",
        "serialization.format",
        "table_type",
    )
)
"""What Spark itself adds to the options, or reads of them: DataStreamWriter (`queryName`, `checkpointLocation`, also of
the sinks of Declarative Pipelines), the properties of a table in its catalog (TableCatalog's PROP_...), SQLConf."""
_IGNORED_PREFIXES: Final = ("option.", "spark.", "__")
"""The first is in front of options that are there once more without it, the last of what DataFrameWriter notes
(`__partition_columns`, `__clustering_columns`)."""
_FORGOTTEN: Final = (
    ". (Of a table in its own catalog, Spark 4.3 forgets the options: make a temporary view of it, or say SELECT ... "
    "FROM t WITH (url = '...', dbtable = '...').)"
)
_HINTS: Final = frozenset(
    (
        "pushdownaggregate", "pushdownlimit", "pushdownoffset", "pushdownpredicate", "pushdowntablesample",
        "truncate", "cascadetruncate",
    )
)  # fmt: skip
"""Options of JDBC that change how a database works and not what comes of it: overwriting keeps the table anyway."""
_OF_JDBC: Final = {
    "user": "a cluster knows its clients by certificates: tlsCa, tlsCert, tlsKey",
    "password": "a cluster knows its clients by certificates: tlsCa, tlsCert, tlsKey",
    "driver": "there is none to load; url names the store",
    "partitioncolumn": "tablets are divided by themselves; numPartitions and splitSize say how far",
    "lowerbound": "tablets are divided by themselves; numPartitions and splitSize say how far",
    "upperbound": "tablets are divided by themselves; numPartitions and splitSize say how far",
    "predicates": "tablets are divided by themselves; where says which rows are read",
    "customschema": "declare the columns with .schema(...), whose types are the table's, or cast them in a query",
    "createtablecolumntypes": "make the table with CREATE TABLE, or cast the DataFrame's columns",
    "createtableoptions": "distributeBy and replicas say how a table is made",
    "querytimeout": "deadline says how long one request may take",
    "sessioninitstatement": "put it into the query",
    "preparequery": "put it into the query: WITH ... SELECT",
}
"""Other options of JDBC, by what serves here."""
_ALIASES: Final = {"path": "url", "maxoffsetspertrigger": "maxrowspertrigger"}
_BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}
_CLIENT: Final = {
    "deadline": "deadline",
    "connectDeadline": "connect_deadline",
    "replicaSelection": "replica_selection",
    "tlsCa": "tls_ca",
    "tlsCert": "tls_cert",
    "tlsKey": "tls_key",
}


class Given:
    """The options of one data source, checked: `given["numPartitions"]` is a value, the default where none was given.

    Plain data that travels to the tasks.
    """

    def __init__(self, use: Use, values: Mapping[str, Any]):
        self.use = use
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        option = _BY_NAME[name.lower()]
        return self._values.get(option.name, option.default)

    def __contains__(self, name: str) -> bool:
        """Was it given?"""
        return _BY_NAME[name.lower()].name in self._values

    def replaced(self, **values: Any) -> Given:
        """The same options but for some."""
        return Given(self.use, {**self._values, **values})

    def client(self) -> dict[str, Any]:
        """What is for the client: the options of `workers.connection`."""
        return {theirs: self[ours] for ours, theirs in _CLIENT.items() if ours in self}


def parse(given: Mapping[str, str], use: Use) -> Given:
    """Check and read the options for one use; `InterfaceError` says what is wrong with the first that cannot be."""
    values: dict[str, Any] = {}
    for name, text in given.items():
        option = _option(name, use)
        if option is None or text is None:
            continue
        if name.lower() in _ALIASES and any(key.lower() == option.name.lower() for key in given):
            continue
        try:
            values[option.name] = option.read(text)
        except (ValueError, Error) as error:
            raise InterfaceError(f"option {option.name}={text!r}: {error}") from None
    if not values.get("url"):
        raise InterfaceError(
            "option url is missing: give a cluster's URL, nyala://host:port, or the directory of a store"
            + ("" if values else _FORGOTTEN)
        )
    return Given(use, values)


def _option(name: str, use: Use) -> Option | None:
    """The option of that name; None for what is not ours."""
    key = name.lower()
    if key in IGNORED or key in _HINTS or key.startswith(_IGNORED_PREFIXES):
        return None
    option = _BY_NAME.get(_ALIASES.get(key, key))
    if option is None and key in _OF_JDBC:
        raise InterfaceError(f"option {name} is JDBC's: {_OF_JDBC[key]}")
    if option is None:
        known = [one.name for one in OPTIONS if use in one.uses]
        raise InterfaceError(f"the data source nyala has no option {name}{did_you_mean(name, known)}")
    if use not in option.uses:
        meant = " and ".join(one.value for one in Use if one in option.uses)
        raise InterfaceError(f"option {option.name} is not for a {use.value}, but for: {meant}")
    return option


def documented() -> Iterator[str]:
    """The lines of the documentation's table."""
    yield "| option | for | default | meaning |"
    yield "|---|---|---|---|"
    for option in OPTIONS:
        uses = "all" if option.uses == ALL else ", ".join(use.value for use in Use if use in option.uses)
        yield f"| `{option.name}` | {uses} | {_default(option)} | {option.meaning} |"


def _default(option: Option) -> str:
    if option.shown_default or option.default is None:
        return option.shown_default
    shown = str(option.default).lower() if isinstance(option.default, bool) else f"{option.default}"
    return f"`{shown}`"
