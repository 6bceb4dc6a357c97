"""GetSqlInfo: facts about the server and its SQL, each a value of one of six types.

    info_name uint32, value dense_union<string, bool, bigint, bitmask, list of strings, map of lists>

Every id of the protocol has a value. A list without elements is empty and not NULL: drivers read it without a check.
A limit of 0 means that there is none, or that it is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from ....errors import ProtocolError
from ....model.schema import MAX_COLUMNS
from ....model.version import __version__
from ....sql.functions import FUNCTIONS
from ..protocol.numbers import SqlInfo

_LIST: Final = pa.list_(pa.field("string_data", pa.utf8()))
_MAP: Final = pa.map_(pa.int32(), pa.list_(pa.field("$data$", pa.int32())))
_CHILDREN: Final = (
    ("string_value", pa.utf8()),
    ("bool_value", pa.bool_()),
    ("bigint_value", pa.int64()),
    ("int32_bitmask", pa.int32()),
    ("string_list", _LIST),
    ("int32_to_int32_list_map", _MAP),
)
_TEXT, _FLAG, _COUNT, _BITS, _TEXTS, _LISTS = range(len(_CHILDREN))
SQL_INFO: Final = pa.schema(
    [
        pa.field("info_name", pa.uint32(), False),
        pa.field("value", pa.dense_union([pa.field(*child) for child in _CHILDREN]), False),
    ]
)

# Values of enumerations, and bits of bitmasks, as FlightSql.proto numbers them.
_SAVEPOINTS: Final = 2
_LOWER_CASE, _CASE_SENSITIVE = 3, 0
_NULLS_HIGH: Final = 0
_BEYOND_SELECT: Final = 1 << 0 | 1 << 1
_CORE_GRAMMAR: Final = 1 << 0 | 1 << 1
_ENTRY_LEVEL: Final = 1 << 0
_FULL_OUTER_JOINS: Final = 1 << 1 | 1 << 2
_ALL_SUBQUERIES: Final = 0b1111
_UNION_AND_UNION_ALL: Final = 0b11
_REPEATABLE_READ: Final = 3
_ISOLATIONS: Final = 0b11110
_FORWARD_ONLY: Final = 1 << 1
_READ_ONLY: Final = 1 << 1
_CONVERTED: Final = (0, 1, 2, 4, 5, 6, 7, 14, 15, 16, 17, 18, 19)
"""Types of SQL_SUPPORTS_CONVERT that CAST has; each can be cast to a text and back."""
_VARCHAR: Final = 19


def _functions(*categories: str) -> list[str]:
    return sorted({f.name for f in FUNCTIONS if f.kind == "scalar" and f.category in categories})


def _constant_facts() -> dict[SqlInfo, tuple[int, Any]]:
    """The facts that all servers of this version have in common."""
    i = SqlInfo
    unlimited = [
        *(info for info in i if i.SQL_MAX_BINARY_LITERAL_LENGTH <= info <= i.SQL_MAX_COLUMN_NAME_LENGTH),
        *(info for info in i if i.SQL_MAX_COLUMNS_IN_GROUP_BY <= info <= i.SQL_MAX_COLUMNS_IN_SELECT),
        *(info for info in i if i.SQL_MAX_CURSOR_NAME_LENGTH <= info <= i.SQL_MAX_ROW_SIZE),
        *(info for info in i if i.SQL_MAX_STATEMENT_LENGTH <= info <= i.SQL_MAX_USERNAME_LENGTH),
    ]
    flags = {
        i.FLIGHT_SQL_SERVER_SQL: True,
        i.FLIGHT_SQL_SERVER_SUBSTRAIT: False,
        i.FLIGHT_SQL_SERVER_CANCEL: True,
        i.FLIGHT_SQL_SERVER_BULK_INGESTION: True,
        i.FLIGHT_SQL_SERVER_INGEST_TRANSACTIONS_SUPPORTED: True,
        i.SQL_DDL_CATALOG: False,
        i.SQL_DDL_TABLE: True,
        i.SQL_ALL_TABLES_ARE_SELECTABLE: True,
        i.SQL_SUPPORTS_COLUMN_ALIASING: True,
        i.SQL_NULL_PLUS_NULL_IS_NULL: True,
        i.SQL_SUPPORTS_TABLE_CORRELATION_NAMES: True,
        i.SQL_SUPPORTS_DIFFERENT_TABLE_CORRELATION_NAMES: False,
        i.SQL_SUPPORTS_EXPRESSIONS_IN_ORDER_BY: True,
        i.SQL_SUPPORTS_ORDER_BY_UNRELATED: True,
        i.SQL_SUPPORTS_LIKE_ESCAPE_CLAUSE: True,
        i.SQL_SUPPORTS_NON_NULLABLE_COLUMNS: True,
        i.SQL_SUPPORTS_INTEGRITY_ENHANCEMENT_FACILITY: False,
        i.SQL_CATALOG_AT_START: True,
        i.SQL_SELECT_FOR_UPDATE_SUPPORTED: False,
        i.SQL_STORED_PROCEDURES_SUPPORTED: False,
        i.SQL_CORRELATED_SUBQUERIES_SUPPORTED: True,
        i.SQL_MAX_ROW_SIZE_INCLUDES_BLOBS: True,
        i.SQL_TRANSACTIONS_SUPPORTED: True,
        i.SQL_DATA_DEFINITION_CAUSES_TRANSACTION_COMMIT: False,
        i.SQL_DATA_DEFINITIONS_IN_TRANSACTIONS_IGNORED: False,
        i.SQL_BATCH_UPDATES_SUPPORTED: True,
        i.SQL_SAVEPOINTS_SUPPORTED: True,
        i.SQL_NAMED_PARAMETERS_SUPPORTED: False,
        i.SQL_LOCATORS_UPDATE_COPY: False,
        i.SQL_STORED_FUNCTIONS_USING_CALL_SYNTAX_SUPPORTED: False,
    }
    texts = {
        i.FLIGHT_SQL_SERVER_NAME: "nyala",
        i.FLIGHT_SQL_SERVER_VERSION: __version__,
        i.FLIGHT_SQL_SERVER_ARROW_VERSION: pa.__version__,
        i.FLIGHT_SQL_SERVER_SUBSTRAIT_MIN_VERSION: "",
        i.FLIGHT_SQL_SERVER_SUBSTRAIT_MAX_VERSION: "",
        i.SQL_IDENTIFIER_QUOTE_CHAR: '"',
        i.SQL_SEARCH_STRING_ESCAPE: "\\",
        i.SQL_EXTRA_NAME_CHARACTERS: "",
        i.SQL_SCHEMA_TERM: "schema",
        i.SQL_PROCEDURE_TERM: "procedure",
        i.SQL_CATALOG_TERM: "catalog",
    }
    bits = {
        i.FLIGHT_SQL_SERVER_TRANSACTION: _SAVEPOINTS,
        i.SQL_SUPPORTED_GROUP_BY: _BEYOND_SELECT,
        i.SQL_SUPPORTED_GRAMMAR: _CORE_GRAMMAR,
        i.SQL_ANSI92_SUPPORTED_LEVEL: _ENTRY_LEVEL,
        i.SQL_OUTER_JOINS_SUPPORT_LEVEL: _FULL_OUTER_JOINS,
        i.SQL_SCHEMAS_SUPPORTED_ACTIONS: 0,
        i.SQL_CATALOGS_SUPPORTED_ACTIONS: 0,
        i.SQL_SUPPORTED_POSITIONED_COMMANDS: 0,
        i.SQL_SUPPORTED_SUBQUERIES: _ALL_SUBQUERIES,
        i.SQL_SUPPORTED_UNIONS: _UNION_AND_UNION_ALL,
        i.SQL_SUPPORTED_TRANSACTIONS_ISOLATION_LEVELS: _ISOLATIONS,
        i.SQL_SUPPORTED_RESULT_SET_TYPES: _FORWARD_ONLY,
        i.SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_UNSPECIFIED: 0,
        i.SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_FORWARD_ONLY: _READ_ONLY,
        i.SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_SCROLL_SENSITIVE: 0,
        i.SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_SCROLL_INSENSITIVE: 0,
    }
    counts = {
        **dict.fromkeys(unlimited, 0),
        i.FLIGHT_SQL_SERVER_STATEMENT_TIMEOUT: 0,
        i.SQL_IDENTIFIER_CASE: _LOWER_CASE,
        i.SQL_QUOTED_IDENTIFIER_CASE: _CASE_SENSITIVE,
        i.SQL_NULL_ORDERING: _NULLS_HIGH,
        i.SQL_MAX_COLUMNS_IN_TABLE: MAX_COLUMNS,
        i.SQL_DEFAULT_TRANSACTION_ISOLATION: _REPEATABLE_READ,
    }
    lists = {
        i.SQL_NUMERIC_FUNCTIONS: _functions("number"),
        i.SQL_STRING_FUNCTIONS: _functions("text"),
        i.SQL_SYSTEM_FUNCTIONS: _functions("system", "conditional"),
        i.SQL_DATETIME_FUNCTIONS: _functions("date and time", "formatting"),
    }
    maps = {
        i.SQL_SUPPORTS_CONVERT: [
            (source, list(_CONVERTED) if source == _VARCHAR else [source, _VARCHAR]) for source in _CONVERTED
        ]
    }
    groups = ((_TEXT, texts), (_FLAG, flags), (_COUNT, counts), (_BITS, bits), (_TEXTS, lists), (_LISTS, maps))
    return {info: (kind, value) for kind, group in groups for info, value in group.items()}


def sql_info(
    rows: Callable[[str], Sequence[tuple[Any, ...]]],
    requested: Iterable[int],
    *,
    read_only: bool = False,
    has_schemas: bool = False,
    connections: int = 0,
    transaction_seconds: float = 0.0,
) -> pa.Table:
    """The requested facts, or all of them.

    Parameters
    ----------
    rows : callable
        Runs a query.
    requested : iterable of int
        Ids of `SqlInfo`; those that the protocol does not have are left out. None of them: all.
    read_only, has_schemas : bool
        What the store and the session allow: no writes; CREATE SCHEMA.
    connections : int
        Limit of sessions.
    transaction_seconds : float
        Seconds after which an idle transaction is rolled back.
    """
    found = _constant_facts()
    found |= {
        SqlInfo.FLIGHT_SQL_SERVER_READ_ONLY: (_FLAG, read_only),
        SqlInfo.FLIGHT_SQL_SERVER_TRANSACTION_TIMEOUT: (_COUNT, int(transaction_seconds * 1000)),
        SqlInfo.SQL_DDL_SCHEMA: (_FLAG, has_schemas),
        SqlInfo.SQL_MAX_CONNECTIONS: (_COUNT, connections),
        SqlInfo.SQL_KEYWORDS: (_TEXTS, [row[0] for row in rows("SELECT word FROM pg_get_keywords() ORDER BY word")]),
    }
    wanted = [int(info) for info in requested] or sorted(found)
    return _union((info, *found[SqlInfo(info)]) for info in wanted if info in found)


def _union(facts: Iterable[tuple[int, int, Any]]) -> pa.Table:
    """The table of ids, kinds and values."""
    names: list[int] = []
    kinds: list[int] = []
    places: list[int] = []
    values: list[list[Any]] = [[] for _ in _CHILDREN]
    for name, kind, value in facts:
        names.append(name)
        kinds.append(kind)
        places.append(len(values[kind]))
        values[kind].append(value)
    children = [pa.array(held, type_) for held, (_, type_) in zip(values, _CHILDREN, strict=True)]
    union = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()), pa.array(places, pa.int32()), children, [name for name, _ in _CHILDREN]
    )
    if union.type != SQL_INFO.field("value").type:
        raise ProtocolError(f"the union of SqlInfo has the type {union.type}")
    return pa.Table.from_arrays([pa.array(names, pa.uint32()), union], schema=SQL_INFO)
