"""The options of the data source: one table, used for parsing, errors and documentation.

Names are JDBC's if JDBC has one, and Kudu's otherwise; Spark ignores their case. `parse` checks the options for one
use: unknown names, options of another use and invalid values raise an `InterfaceError` with the alternatives.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ...cluster.client.options import REPLICA_SELECTIONS
from ...driver.stores.cluster_url import user_options, without_user
from ...driver.stores.open_stores import is_cluster
from ...errors import Error, InterfaceError, LoginExpired, did_you_mean
from ...model.access.tokens import TASK_SECONDS, token_user
from ...model.lazy_dataclass import dataclass
from ...model.store import Store
from ...sql.settings import parse_bytes
from .. import workers


class Use(enum.Enum):
    """The operation that a data source is used for."""

    READ = "read"
    WRITE = "write"
    STREAM = "stream read"
    SINK = "stream write"


READS: Final = frozenset((Use.READ, Use.STREAM))
WRITES: Final = frozenset((Use.WRITE, Use.SINK))
VIEWED_WRITES: Final = WRITES | {Use.READ}
"""Uses of options for writing that are also allowed in a view, which is read as well: INSERT INTO it."""
ALL: Final = frozenset(Use)

Reader = Callable[[str], Any]
"""Converts the text of an option to its value; raises `ValueError` with the expected form."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: `default` is its value if it is not given, None if there is none; `read` converts its text."""

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
    """One of some words, in any case."""

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
    size_bytes = parse_bytes(text, "")
    if not isinstance(size_bytes, int) or size_bytes < 1:
        raise ValueError("a size is needed, such as 64MB")
    return size_bytes


def names(text: str) -> tuple[str, ...]:
    """Names separated by commas; those that contain commas or spaces in double quotes, as in SQL."""
    found: list[str] = []
    rest = text
    while True:
        name, rest = _name(rest.strip())
        found.append(name)
        if not rest:
            break
        if not rest.startswith(","):
            raise ValueError("names are needed, with commas between them")
        rest = rest[1:]
    if len(set(found)) < len(found):
        raise ValueError("each name may be given once")
    return tuple(found)


def _name(text: str) -> tuple[str, str]:
    """The name at the beginning of a text, and the text after it."""
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
        raise ValueError("names are needed, with commas between them")
    return name.strip(), comma + rest


def moment(text: str) -> int | str:
    """A hybrid timestamp (digits), or the text of a point in time."""
    plain = text.strip()
    return int(plain) if plain.isdigit() else plain


def token(text: str) -> int:
    """A hybrid timestamp."""
    if not text.strip().isdigit():
        raise ValueError("a hybrid timestamp is needed, as `Connection.now` returns it")
    return int(text)


def login_token(text: str) -> bytes:
    """A token in hexadecimal digits. The errors do not repeat it."""
    try:
        found = bytes.fromhex(text)
        token_user(found)
    except (ValueError, LoginExpired):
        raise ValueError("a token is needed, as `nyala.spark.token` returns it") from None
    return found


def token_seconds(text: str) -> float:
    """A number of seconds above 0, a day at most."""
    value = seconds(text)
    if value > TASK_SECONDS:
        raise ValueError(f"{TASK_SECONDS} seconds, a day, are the most")
    return value


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
        "the process that has it open; the same as the argument of `load(...)`",
    ),
    Option(
        "dbtable",
        'the table or view, also `schema.table`; `public.orders` and `"orders"` are `orders`. To read, also a query in '
        "parentheses, `(SELECT ...) t`",
    ),
    Option(
        "query",
        "in place of `dbtable`: any SELECT in nyala's SQL. One that filters and projects a single table is read in "
        "parallel; nyala executes any other, in one task",
        frozenset((Use.READ,)),
    ),
    Option("columns", "the columns to read, with commas between them", READS, None, names, "all"),
    Option("where", "read only rows for which this condition, in nyala's SQL, is true", READS, None, str, "all rows"),
    Option(
        "asOf",
        "read the table as of this time: a timestamp in UTC, or a hybrid timestamp as `Connection.last_timestamp` "
        "returns it",
        frozenset((Use.READ,)),
        None,
        moment,
        "when Spark plans the relation",
    ),
    Option(
        "observed",
        "a token of another process, as for `Connection.observe`: the snapshot is at or above this hybrid timestamp",
        READS,
        None,
        token,
        "none",
    ),
    Option(
        "numPartitions",
        "the maximum number of tasks that read; tablets are split if there are fewer of them",
        frozenset((Use.READ,)),
        None,
        whole_number(1),
        "one for each tablet, or part of it",
    ),
    Option(
        "splitSize",
        "the approximate number of bytes of a tablet, on its disk, that a task reads; larger tablets are split",
        frozenset((Use.READ,)),
        128 << 20,
        size,
        "`128MB`",
    ),
    Option("fetchsize", "the maximum number of rows in a batch sent to Spark", READS, 65_536, whole_number(1)),
    Option(
        "isolationLevel",
        "JDBC's names are accepted, and have no effect: all tasks of a relation read one snapshot, which is "
        "SERIALIZABLE for a reader",
        frozenset((Use.READ,)),
        "SNAPSHOT",
        choice(*ISOLATION_LEVELS),
    ),
    Option(
        "pushdown",
        "push down Spark's filters (with `spark.sql.python.filterPushdown.enabled=true`). **Dangerous**: Spark 4.3 "
        "mixes up the filters of several uses of one relation, and a self-join, a union or a view used twice then "
        "returns *wrong rows* without an error. Only for a relation that is used once; `where` is always safe",
        frozenset((Use.READ,)),
        False,
        flag,
    ),
    Option(
        "preferTimestampNTZ",
        "TIMESTAMP is Spark's `timestamp_ntz`; with `false` its `timestamp`, the instant in UTC",
        READS,
        True,
        flag,
    ),
    Option(
        "startingTimestamp",
        "read changes, not rows: every insert, update and delete after this time, with the columns `_change` and "
        "`_changed_at`. `earliest` (the existing rows as inserts, and then their changes), "
        "`latest` (a stream: changes from now on), a timestamp in UTC or a hybrid one. A stream continues where its "
        "checkpoint ends; a batch read ends at `asOf`",
        READS,
        None,
        moment,
        "rows are read; a stream needs it",
    ),
    Option(
        "maxRowsPerTrigger",
        "the approximate maximum of changes in a batch of a stream: it ends where a write ended, so only one write of "
        "more rows exceeds it. With `earliest`, the existing rows are read in batches of this size, by key. "
        "`maxOffsetsPerTrigger` is the same",
        READS,
        None,
        whole_number(1),
        "all changes so far",
    ),
    Option(
        "deadline",
        "seconds after which a write of one batch, or the scan of one task, stops retrying servers, all of its "
        "requests together",
        ALL,
        30.0,
        seconds,
    ),
    Option("connectDeadline", "seconds within which a master must respond", ALL, 10.0, seconds),
    Option(
        "tlsCa",
        "of a cluster with TLS: the PEM file with its CA's certificate; used with `tlsCert` and `tlsKey`. The files "
        "must exist wherever tasks run",
        ALL,
        None,
        str,
        "NYALA_TLS_CA where tasks run",
    ),
    Option("tlsCert", "the PEM file with the client's certificate", ALL, None, str, "NYALA_TLS_CERT"),
    Option("tlsKey", "the PEM file with the key of that certificate", ALL, None, str, "NYALA_TLS_KEY"),
    Option(
        "user",
        "of a store with users: the user to log in as; also in the URL, `nyala://ann:...@host/`",
        ALL,
        None,
        str,
        "NYALA_USER of the driver",
    ),
    Option(
        "password",
        "its password, which stays in the driver: tasks get a token",
        ALL,
        None,
        str,
        "NYALA_PASSWORD of the driver",
    ),
    Option(
        "token",
        "in place of user and password: a token that `nyala.spark.token` has returned, perhaps in another process",
        ALL,
        None,
        login_token,
        "one is requested with the password",
    ),
    Option(
        "tokenSeconds",
        "seconds for which the token of the tasks is valid, a day at most: tasks that begin later fail. Each batch of "
        "a stream gets a new one",
        ALL,
        float(TASK_SECONDS),
        token_seconds,
        f"`{TASK_SECONDS}`",
    ),
    Option(
        "operation",
        "the operation for the rows: `insert` (an existing key is an error, and nothing is written then), "
        "`insert_ignore` (it is skipped), `upsert` (the row is updated), `update` and `delete` (a missing key is "
        "an error), `update_ignore`, `delete_ignore`, `upsert_ignore`",
        VIEWED_WRITES,
        "insert",
        choice(*OPERATIONS),
    ),
    Option("batchsize", "the maximum number of rows in one write to the store", VIEWED_WRITES, 65_536, whole_number(1)),
    Option(
        "idempotencyKey",
        "a name for this job: a job that has already been published under it is not written again, and one whose "
        "publication was interrupted is finished",
        frozenset((Use.WRITE,)),
        None,
        str,
        "none: each run is a separate job",
    ),
    Option(
        "staged",
        "rows become visible when all tasks have succeeded. With `false` tasks write into the table themselves: "
        "faster, but rows of a failed job remain, so only repeatable operations are allowed",
        VIEWED_WRITES,
        True,
        flag,
    ),
    Option(
        "primaryKey",
        "create the table, if it does not exist, with the DataFrame's columns and this primary key: columns separated "
        "by commas",
        WRITES,
        None,
        names,
        "the table must exist",
    ),
    Option(
        "distributeBy",
        "the distribution of a created table, in the syntax of CREATE TABLE: `HASH (id) INTO 4 BUCKETS`",
        WRITES,
        None,
        str,
        "one tablet",
    ),
    Option(
        "replicas", "the number of replicas of a created table", WRITES, None, whole_number(1), "the cluster's default"
    ),
    Option(
        "replicaSelection",
        "the replica that scans are sent to first: `auto` is the leader for a snapshot of the last seconds, and the "
        "closest for an older one",
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
"""Options that Spark itself adds or reads: those of DataStreamWriter (`queryName`, `checkpointLocation`, also of the
sinks of Declarative Pipelines), the properties of a table in its catalog (TableCatalog's PROP_...), SQLConf."""
_IGNORED_PREFIXES: Final = ("option.", "spark.", "__")
"""The first prefixes options that are also given without it, the second those that DataFrameWriter records
(`__partition_columns`, `__clustering_columns`)."""
_FORGOTTEN: Final = (
    ". (Of a table in its own catalog, Spark 4.3 loses the options: create a temporary view of it, or write SELECT ... "
    "FROM t WITH (url = '...', dbtable = '...').)"
)
_HINTS: Final = frozenset(
    (
        "pushdownaggregate", "pushdownlimit", "pushdownoffset", "pushdownpredicate", "pushdowntablesample",
        "truncate", "cascadetruncate",
    )
)  # fmt: skip
"""Options of JDBC that affect a database's work but not its result: overwriting keeps the table anyway."""
_OF_JDBC: Final = {
    "driver": "there is none to load; url names the store",
    "partitioncolumn": "tablets are split automatically; numPartitions and splitSize control it",
    "lowerbound": "tablets are split automatically; numPartitions and splitSize control it",
    "upperbound": "tablets are split automatically; numPartitions and splitSize control it",
    "predicates": "tablets are split automatically; where selects the rows to read",
    "customschema": "declare the columns with .schema(...), whose types are the table's, or cast them in a query",
    "createtablecolumntypes": "create the table with CREATE TABLE, or cast the DataFrame's columns",
    "createtableoptions": "distributeBy and replicas configure a created table",
    "querytimeout": "deadline limits the duration of one request",
    "sessioninitstatement": "put it into the query",
    "preparequery": "put it into the query: WITH ... SELECT",
}
"""Alternatives to other options of JDBC."""
_ALIASES: Final = {"path": "url", "maxoffsetspertrigger": "maxrowspertrigger"}
_BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}
_CLIENT: Final = {
    "deadline": "deadline",
    "connectDeadline": "connect_deadline",
    "replicaSelection": "replica_selection",
    "tlsCa": "tls_ca",
    "tlsCert": "tls_cert",
    "tlsKey": "tls_key",
    "user": "user",
    "password": "password",
    "token": "token",
}
_SECRET: Final = frozenset(("password", "token"))


class SourceOptions:
    """The checked options of one data source: `given["numPartitions"]` is a value, the default if it was not given.

    Plain data that is sent to the tasks.
    """

    def __init__(self, use: Use, values: Mapping[str, Any]):
        self.use = use
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        option = _BY_NAME[name.lower()]
        return self._values.get(option.name, option.default)

    def __contains__(self, name: str) -> bool:
        """True if the option was given."""
        return _BY_NAME[name.lower()].name in self._values

    def replaced(self, **values: Any) -> SourceOptions:
        """The same options with some of them replaced."""
        return SourceOptions(self.use, {**self._values, **values})

    def for_tasks(self, client: Store) -> SourceOptions:
        """The options as tasks have them: without a password, and with a token for the user of `client`, which is the
        store of a connection with these options (`workers.task_access`)."""
        url, access = workers.task_access(self["url"], self.client(), client, self["tokenSeconds"])
        others = {name: value for name, value in self._values.items() if name not in _CLIENT}
        given = {ours: access[theirs] for ours, theirs in _CLIENT.items() if theirs in access}
        return SourceOptions(self.use, {**others, **given, "url": url})

    def client(self) -> dict[str, Any]:
        """The options of the client, for `workers.connection`."""
        return {theirs: self[ours] for ours, theirs in _CLIENT.items() if ours in self}


def parse(given: Mapping[str, str], use: Use) -> SourceOptions:
    """Checks and converts the options for one use; `InterfaceError` describes the first invalid one."""
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
            shown = option.name if option.name in _SECRET else f"{option.name}={text!r}"
            raise InterfaceError(f"option {shown}: {error}") from None
    if not values.get("url"):
        raise InterfaceError(
            "option url is missing: give a cluster's URL, nyala://host:port, or the directory of a store"
            + ("" if values else _FORGOTTEN)
        )
    if is_cluster(values["url"]):
        values |= _user(values["url"], values)
        values["url"] = without_user(values["url"])
    return SourceOptions(use, values)


def _user(url: str, values: Mapping[str, Any]) -> dict[str, str]:
    """The user and password that the URL or the options name; none of them with a token."""
    named = {name: values[name] for name in ("user", "password") if values.get(name)}
    found = user_options(url, named, {})
    if found and "token" in values:
        raise InterfaceError("option token: it names its user, so neither user nor password is given with it")
    return found


def _option(name: str, use: Use) -> Option | None:
    """The option of that name; None for names that are not nyala's."""
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
