"""The same small tables in nyala and in other engines, whose answers are held beside each other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb
import nyala


@contextlib.contextmanager
def same_tables(
    columns: Mapping[str, str], rows: Mapping[str, Sequence[tuple[Any, ...]]], *others: Any
) -> Iterator[tuple[Any, ...]]:
    """Connections to nyala, DuckDB and `others`, closed at the end. Each has the tables of these names, with columns as
    SQL has them and rows of Python values."""
    engines = nyala.connect(":memory:"), duckdb.connect(), *others
    with contextlib.ExitStack() as stack:
        for engine in engines:
            stack.callback(engine.close)
        for engine in engines:
            for name, definition in columns.items():
                engine.execute(f"CREATE TABLE {name} ({definition})")
                for row in rows[name]:
                    values = ", ".join("NULL" if value is None else repr(value) for value in row)
                    engine.execute(f"INSERT INTO {name} VALUES ({values})")
        yield engines
