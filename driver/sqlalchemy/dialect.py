"""The dialect: URLs to connections, transactions as far as nyala supports them, and its features as flags.

| URL | target |
|---|---|
| `nyala://` | in memory; one connection, which all threads share |
| `nyala:///weather` | the directory `weather` |
| `nyala:////data/weather` | the directory `/data/weather` |
| `nyala://host:7051/` | a cluster, `?host=host2:7051` for each further server |

Behind `?` stand the options of `connect`: `nyala:///weather?threads=2&durability=os`.

**Transactions.** Every statement is durable when it returns, so `commit` writes nothing, and `rollback` cannot undo
anything. SQLAlchemy rolls back when a connection is returned or an error occurs, which has no effect; but if rows were
written since the last commit, a `NotRolledBackWarning` says that they stay. Savepoints are refused.
"""

from __future__ import annotations

import importlib
import re
import warnings
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

from ...errors import InterfaceError, NotRolledBackWarning, NotSupportedError
from ..stores.open_stores import MEMORY
from .compiler import NyalaCompiler, NyalaIdentifierPreparer
from .ddl import COLUMN_OPTIONS, TABLE_OPTIONS, NyalaDDLCompiler
from .numbering import next_number
from .reflection import SCHEMA, NyalaReflection
from .types import COLUMN_TYPES, REFLECTED, NyalaTypeCompiler

_INTEGER_OPTIONS: Final = frozenset({"threads", "history_seconds"})
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

        def execute(statement: str, parameters: Sequence[Any]) -> Any:
            cursor = self._dbapi_connection.cursor()
            cursor.execute(statement, parameters)
            return None if cursor.description is None else cursor.fetchone()

        def largest() -> int | None:
            row = execute(f"SELECT max({preparer.format_column(column)}) FROM {preparer.quote(table.name)}", ())
            return None if row is None else row[0]

        connection: Any = self._dbapi_connection.driver_connection
        cells: Any = getattr(self.compiled, "insert_prefetch", ())  # of a multi-row VALUES: one of each row
        count = max(len(self.compiled_parameters), len(cells))
        return next_number(connection.store, table.name, count, largest, execute)

    def post_exec(self) -> None:
        if self.cursor.description is None and self._rowcount is None:
            self._rowcount = self.cursor.rowcount  # which a cursor that is closed has forgotten
        if self.root_connection.get_execution_options().get("isolation_level") == AUTOCOMMIT:
            self._dbapi_connection.commit()


class NyalaDialect(NyalaReflection):
    """SQLAlchemy's dialect named `nyala`."""

    name = "nyala"
    driver = "nyala"
    default_paramstyle = "qmark"
    default_schema_name = SCHEMA

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

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        # The package's `__init__` is above this room, so it is imported by name, as SQLAlchemy imports this module.
        return importlib.import_module(__name__.partition(".")[0])

    # ---- connecting -----------------------------------------------------------------------------------------------

    @classmethod
    def get_pool_class(cls, url: URL) -> type[pool.Pool]:
        return pool.StaticPool if _target(url) == MEMORY else pool.QueuePool

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
            elif name == "commit_wait":
                options[name] = value.lower() in ("true", "1", "yes", "on")
        return [_target(url)], options

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        return isinstance(e, InterfaceError) and "is closed" in str(e)

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        version = str(getattr(self.dbapi, "__version__", "0"))
        return tuple(int(part) for part in re.findall(r"\d+", version))

    def _get_default_schema_name(self, connection: Any) -> str:
        return SCHEMA

    # ---- transactions ---------------------------------------------------------------------------------------------

    def do_begin(self, dbapi_connection: Any) -> None:
        _driver(dbapi_connection).commit()

    def do_commit(self, dbapi_connection: Any) -> None:
        _driver(dbapi_connection).commit()

    def do_rollback(self, dbapi_connection: Any) -> None:
        connection = _driver(dbapi_connection)
        if connection.has_uncommitted_rows:
            connection.commit()
            if self._on_connect_isolation_level != AUTOCOMMIT:
                warnings.warn(
                    "nothing is rolled back: every statement of nyala is durable when it returns. commit() says that "
                    "this is meant, isolation_level='AUTOCOMMIT' says so for a whole connection or engine",
                    NotRolledBackWarning,
                    stacklevel=2,
                )

    def do_savepoint(self, connection: Any, name: str) -> None:
        raise _refusal("SAVEPOINT (begin_nested)")

    def do_begin_twophase(self, connection: Any, xid: Any) -> None:
        raise _refusal("a two-phase transaction")

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:
        return AUTOCOMMIT

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        return AUTOCOMMIT

    def get_isolation_level_values(self, dbapi_conn: Any) -> Any:
        return [AUTOCOMMIT]

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        """Nothing: there is one, and its name is checked before."""

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        return True

    # ---- executing ------------------------------------------------------------------------------------------------

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        if statement or context is None or not context.isddl:
            cursor.execute(statement, parameters)

    def do_execute_no_params(self, cursor: Any, statement: str, context: Any = None) -> None:
        self.do_execute(cursor, statement, None, context)


def _driver(dbapi_connection: Any) -> Any:
    """The driver's connection of a pooled one, or of itself."""
    return getattr(dbapi_connection, "driver_connection", dbapi_connection)


def _refusal(what: str) -> Exception:
    """The driver's error as SQLAlchemy's, which wraps errors of cursors itself, but not those of transactions."""
    cause = NotSupportedError(f"{what} is not supported: every statement is durable when it returns")
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
