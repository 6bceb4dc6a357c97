"""The dialect: URLs to connections, transactions, and its features as flags.

| URL | target |
|---|---|
| `nyala://` | in memory: a store for each engine, which ends with it |
| `nyala:///weather` | the directory `weather` |
| `nyala:////data/weather` | the directory `/data/weather` |
| `nyala://host:7051/` | a cluster, `?host=host2:7051` for each further server |

Behind `?` stand the options of `connect`: `nyala:///weather?threads=2&durability=os`.

**Transactions.** Connections have no autocommit: the first statement begins a transaction. In directories and in memory
DDL is part of it. On clusters DDL that SQLAlchemy makes commits the open transaction first, as with MySQL and Oracle.
"""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

from sqlalchemy import exc, pool
from sqlalchemy.engine import default
from sqlalchemy.engine.interfaces import ConnectArgsType
from sqlalchemy.engine.url import URL
from sqlalchemy.exc import ArgumentError
from sqlalchemy.schema import Column, Table
from sqlalchemy.sql.compiler import InsertmanyvaluesSentinelOpts

from ...errors import InterfaceError, NotSupportedError
from ...model.abandoned import close_when_dropped
from ...model.namespaces import DEFAULT_NAMESPACE, TEMPORARY_NAMESPACE
from ...model.transactions import Isolation
from ..stores.open_stores import MEMORY
from .compiler import NyalaCompiler, NyalaIdentifierPreparer
from .ddl import COLUMN_OPTIONS, TABLE_OPTIONS, NyalaDDLCompiler
from .numbering import next_number, next_temporary_number
from .reflection import NyalaReflection
from .types import COLUMN_TYPES, REFLECTED, NyalaTypeCompiler

_INTEGER_OPTIONS: Final = frozenset({"threads", "history_seconds", "observed"})
_SWITCHES: Final = frozenset({"commit_wait", "autocommit"})
_SECONDS_OPTIONS: Final = frozenset({"deadline", "connect_deadline"})
_OF_TARGET: Final = frozenset({"host", "tls"})
"""Parts of a URL that belong to `_target` and are not options."""
AUTOCOMMIT: Final = "AUTOCOMMIT"


class NyalaExecutionContext(default.DefaultExecutionContext):
    """One execution: numbers keys that were not given."""

    def get_insert_default(self, column: Any) -> Any:
        numbered = getattr(self.compiled, "numbered", None)
        if numbered is not None and getattr(column, "original", column) is numbered:
            return self._next_number(numbered)
        return super().get_insert_default(column)

    def _next_number(self, column: Column[Any]) -> int:
        table, preparer = column.table, self.identifier_preparer
        assert isinstance(table, Table)
        # The engine has the map of an execution itself, which its connection does not know.
        translated: Any = self.execution_options.get("schema_translate_map") or {}
        schema = translated.get(table.schema, table.schema)
        name = preparer.format_table(table, use_schema=False)
        written = name if schema is None else f"{preparer.quote_schema(schema)}.{name}"

        connection: Any = self._dbapi_connection.driver_connection

        def execute(statement: str, parameters: Sequence[Any]) -> Any:
            # Numbers stay reserved if the transaction is rolled back, and reserving them conflicts with no other.
            with connection.duplicate() as other:
                other.autocommit = True
                return _first_row(other, statement, parameters)

        def largest() -> int | None:
            text = f"SELECT max({preparer.format_column(column)}) FROM {written}"
            row = _first_row(self._dbapi_connection, text, ())
            return None if row is None else row[0]

        cells: Any = getattr(self.compiled, "insert_prefetch", ())  # of a multi-row VALUES: one of each row
        count = max(len(self.compiled_parameters), len(cells))
        parts = [table.name] if schema is None else [schema, table.name]
        found, store = (
            connection.store.table(connection.session.stored_name(parts)),
            connection.session.transactions.store,
        )
        if found.namespace == TEMPORARY_NAMESPACE:
            return next_temporary_number(store, found.id, count, largest)
        return next_number(store, found.id, count, largest, execute)

    def post_exec(self) -> None:
        if self.cursor.description is None and self._rowcount is None:
            self._rowcount = self.cursor.rowcount  # which a cursor that is closed has forgotten


class NyalaDialect(NyalaReflection):
    """SQLAlchemy's dialect named `nyala`."""

    name = "nyala"
    driver = "nyala"
    default_paramstyle = "qmark"
    default_schema_name = DEFAULT_NAMESPACE

    statement_compiler = NyalaCompiler
    ddl_compiler = NyalaDDLCompiler
    type_compiler_cls = NyalaTypeCompiler
    preparer = NyalaIdentifierPreparer
    execution_ctx_cls = NyalaExecutionContext
    construct_arguments = [(Table, TABLE_OPTIONS), (Column, COLUMN_OPTIONS)]
    colspecs = COLUMN_TYPES
    ischema_names = REFLECTED

    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_enum = False
    supports_native_uuid = False
    supports_alter = True
    supports_comments = True
    inline_comments = True
    supports_views = True
    supports_sequences = False
    supports_identity_columns = False
    supports_default_values = True
    supports_default_metavalue = True
    supports_empty_insert = False
    supports_multivalues_insert = True
    supports_is_distinct_from = True
    supports_sane_rowcount = True
    supports_sane_multi_rowcount = True
    supports_sane_rowcount_returning = True
    tuple_in_values = True
    div_is_floordiv = True
    postfetch_lastrowid = False
    preexecute_autoincrement_sequences = False

    insert_returning = True
    update_returning = True
    delete_returning = True
    update_returning_multifrom = True
    delete_returning_multifrom = True
    use_insertmanyvalues = True
    insertmanyvalues_implicit_sentinel = InsertmanyvaluesSentinelOpts.ANY_AUTOINCREMENT

    def __init__(self, json_serializer: Any = None, json_deserializer: Any = None, **kw: Any):
        super().__init__(**kw)
        self._json_serializer = json_serializer
        self._json_deserializer = json_deserializer
        self._memory: Any = None
        """The connection that keeps the engine's store in memory."""
        self._memory_lock = threading.Lock()

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        # The package's `__init__` is above this room, so it is imported by name, as SQLAlchemy imports this module.
        return importlib.import_module(__name__.partition(".")[0])

    # ---- connecting -----------------------------------------------------------------------------------------------

    @classmethod
    def get_pool_class(cls, url: URL) -> type[pool.Pool]:
        return pool.QueuePool

    def connect(self, *cargs: Any, **cparams: Any) -> Any:
        """Connect; of a store in memory each is another connection, with transactions of its own."""
        if cargs[0] != MEMORY:
            return super().connect(*cargs, **cparams)
        with self._memory_lock:
            if self._memory is None:
                self._memory = super().connect(*cargs, **cparams)
                close_when_dropped(self, "", self._memory.close)
        return self._memory.duplicate()

    def create_connect_args(self, url: URL) -> ConnectArgsType:
        options: dict[str, Any] = {name: value for name, value in url.query.items() if name not in _OF_TARGET}
        for name, value in options.items():
            if not isinstance(value, str):
                raise ArgumentError(f"the URL gives {name} twice: {', '.join(value)}")
            if name in _INTEGER_OPTIONS:
                try:
                    options[name] = int(value)
                except ValueError:
                    raise ArgumentError(f"{name}={value}: a whole number is needed") from None
            elif name in _SECONDS_OPTIONS:
                try:
                    options[name] = float(value)
                except ValueError:
                    raise ArgumentError(f"{name}={value}: a number of seconds is needed") from None
            elif name in _SWITCHES:
                options[name] = value.lower() in ("true", "1", "yes", "on")
        options.setdefault("autocommit", False)
        return [_target(url)], options

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        return isinstance(e, InterfaceError) and "is closed" in str(e)

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        version = str(getattr(self.dbapi, "__version__", "0"))
        return tuple(int(part) for part in re.findall(r"\d+", version))

    def _get_default_schema_name(self, connection: Any) -> str:
        return str(connection.exec_driver_sql("SELECT current_schema()").scalar() or DEFAULT_NAMESPACE)

    # ---- transactions ---------------------------------------------------------------------------------------------

    def do_commit(self, dbapi_connection: Any) -> None:
        _driver(dbapi_connection).commit()

    def do_rollback(self, dbapi_connection: Any) -> None:
        connection = _driver(dbapi_connection)
        if connection.autocommit and not connection.in_transaction:
            connection.commit()  # as AUTOCOMMIT says; otherwise the driver's rollback warns that the rows stay
        super().do_rollback(dbapi_connection)

    def do_begin_twophase(self, connection: Any, xid: Any) -> None:
        raise _refusal("a two-phase transaction")

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:
        return _driver(dbapi_conn).isolation_level

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        connection = _driver(dbapi_connection)
        return AUTOCOMMIT if connection.autocommit else connection.isolation_level

    def get_isolation_level_values(self, dbapi_conn: Any) -> Any:
        return [AUTOCOMMIT, *(level.value for level in Isolation)]

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        connection = _driver(dbapi_connection)
        connection.autocommit = level == AUTOCOMMIT
        if level != AUTOCOMMIT:
            connection.isolation_level = level

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        return bool(_driver(dbapi_conn).autocommit)

    # ---- executing ------------------------------------------------------------------------------------------------

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        if context is not None and context.isddl and not cursor.connection.transactional_ddl:
            cursor.connection.commit()
        if statement or context is None or not context.isddl:
            cursor.execute(statement, parameters)

    def do_execute_no_params(self, cursor: Any, statement: str, context: Any = None) -> None:
        self.do_execute(cursor, statement, None, context)


def _first_row(connection: Any, statement: str, parameters: Sequence[Any]) -> Any:
    """Execute a statement and return its first row, None where it has none."""
    cursor = connection.cursor()
    cursor.execute(statement, parameters)
    return None if cursor.description is None else cursor.fetchone()


def _driver(dbapi_connection: Any) -> Any:
    """The driver's connection of a pooled one, or of itself."""
    return getattr(dbapi_connection, "driver_connection", dbapi_connection)


def _refusal(what: str) -> Exception:
    """The driver's error as SQLAlchemy's, which wraps errors of cursors itself, but not those of transactions."""
    cause = NotSupportedError(f"{what} is not supported: a transaction is over when its COMMIT returns")
    return exc.NotSupportedError(what, None, cause)


def _target(url: URL) -> str:
    """Target for `connect`: a directory, ":memory:" or `nyala://servers/`."""
    more = url.query.get("host", ())
    servers = [more] if isinstance(more, str) else list(more)
    if url.host:
        servers.insert(0, url.host if url.port is None else f"{url.host}:{url.port}")
    if servers:
        plain = f"?tls={url.query['tls']}" if "tls" in url.query else ""
        return f"nyala://{','.join(servers)}/{url.database or ''}{plain}"
    return url.database or MEMORY
