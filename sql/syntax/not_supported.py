"""Syntax of other databases that nyala does not support, by keyword, with alternatives.

`grammar` rejects these with a `NotSupportedError` and a caret under the word. docs/sql.md lists them under "What there
is not".
"""

from __future__ import annotations

from typing import Final

_IDS: Final = "gen_random_uuid() makes ids, a NON UNIQUE PRIMARY KEY numbers rows by itself"
_KEY: Final = "the primary key is the only constraint, and a program checks the rest before it writes"
_NO_USERS: Final = "there are no users; the directory's permissions, or a cluster's certificates, control access"
_IN_PYTHON: Final = "write it in Python, around the statements"

OBJECTS: Final = {
    "DATABASE": "a directory is a database: connect to another one",
    "EXTERNAL": "FROM 'file.parquet' and read_csv('file.csv') read files, CREATE VIEW names such a query",
    "EXTENSION": _IN_PYTHON,
    "FUNCTION": _IN_PYTHON,
    "INDEX": "the primary key is the only index: begin it with the columns that are searched for",
    "MATERIALIZED": "CREATE VIEW stores the query, CREATE TABLE ... AS its rows",
    "PROCEDURE": _IN_PYTHON,
    "ROLE": _NO_USERS,
    "SEQUENCE": _IDS,
    "TEMP": "DROP TABLE and DROP VIEW drop temporary objects, too",
    "TEMPORARY": "DROP TABLE and DROP VIEW drop temporary objects, too",
    "TRIGGER": "Connection.table(name).changes() returns the changes of a table to a program",
    "TYPE": "a STRING column holds the names",
    "UNIQUE": "the primary key is the only index, and unique",
    "UNLOGGED": "CREATE TEMPORARY TABLE makes one that ends with the session",
    "USER": _NO_USERS,
}
"""Keywords after CREATE, DROP and ALTER."""

CONSTRAINTS: Final = {
    "UNIQUE": _KEY,
    "CHECK": _KEY,
    "FOREIGN KEY": _KEY,
    "REFERENCES": _KEY,
    "CONSTRAINT": "a PRIMARY KEY has no name, and is the only constraint",
    "EXCLUDE": _KEY,
    "GENERATED": f"a view computes columns; {_IDS}",
    "AS": "a view computes columns",
    "AUTOINCREMENT": _IDS,
    "AUTO_INCREMENT": _IDS,
    "IDENTITY": _IDS,
    "COLLATE": "texts are compared by code points; ORDER BY lower(text) ignores case",
}
"""Keywords in the definition of a column or table."""

TYPES: Final = {
    "SERIAL": f"BIGINT holds numbers; {_IDS}",
    "BIGSERIAL": f"BIGINT holds numbers; {_IDS}",
    "SMALLSERIAL": f"SMALLINT holds numbers; {_IDS}",
    "UUID": "STRING holds what gen_random_uuid() makes",
    "JSON": "STRING holds its text",
    "JSONB": "STRING holds its text",
    "VARIANT": "STRING holds its text",
    "TIME": "INTERVAL in expressions, INT seconds in a table",
    "ENUM": "STRING holds the names, and DICT encodes each once",
    "ARRAY": "a table of its own has a row for each element",
    "LIST": "a table of its own has a row for each element",
    "MAP": "a table of its own has a row for each element",
    "STRUCT": "each field is a column of its own",
    "INTERVAL": "INTERVAL exists in expressions; a table keeps a BIGINT of seconds or days",
    "MONEY": "DECIMAL(18, 2) holds amounts",
}
"""Column types, by the names used here."""

LIMITED_CHANGE: Final = "WHERE key IN (SELECT key FROM ... LIMIT n) chooses the rows"
LOCKS: Final = "a transaction checks at COMMIT that the rows it wrote, or read FOR UPDATE, have not changed since"
PREPARED: Final = "a transaction is over when its COMMIT returns, on all servers"
NO_WAITING: Final = "transactions do not wait for each other, so they need no lock in advance"
ZONES: Final = "timestamps are in UTC; add a fixed distance, such as t + INTERVAL '2' HOUR, or convert in Python"
PATTERNS: Final = "window functions such as lag(value) OVER (ORDER BY key) compare rows with those before them"
PIVOTS: Final = "sum(value) FILTER (WHERE key = 1) makes a column of a value"
FILES: Final = "files are those of this machine's file system: download it, or mount it"
CONSTRAINT_STAYS: Final = "the primary key is a table's only constraint, and cannot change"
ORDER_STAYS: Final = "columns are added at the end; a view, or the select list, has them in another order"
PLACEHOLDERS: Final = "parameters are written ?, $1 or :name"
