"""The function registry against the database: every example is run, and what holds for all functions is checked of all."""

from __future__ import annotations

import pytest
import nyala
from nyala.executor.functions import GENERATORS, KERNELS
from nyala.shell.formats import texts
from nyala.sql.functions import FUNCTIONS, REGISTRY, SCALARS, Function


@pytest.fixture(scope="module")
def connection():
    with nyala.connect(":memory:") as found:
        yield found


def shown(connection, query: str) -> str:
    """A query's rows as text: values separated by commas, rows by semicolons."""
    cursor = connection.execute(query)
    table = cursor.arrow()
    types = [column[1] for column in cursor.description]
    columns = [texts(column.combine_chunks(), type_) for column, type_ in zip(table.columns, types)]
    return "; ".join(", ".join("NULL" if value is None else value for value in row) for row in zip(*columns))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_example(connection, function: Function) -> None:
    query = function.example if function.example.startswith("SELECT") else f"SELECT {function.example}"
    assert shown(connection, query) == function.result


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_is_described(function: Function) -> None:
    assert function.category and function.description and not function.description.endswith(".")
    assert function.example and function.result
    assert function.signature.startswith(function.name)
    assert function.kind in ("scalar", "aggregate", "window", "table")


def test_names_are_unique() -> None:
    assert len(REGISTRY) == sum(1 + len(f.aliases) for f in FUNCTIONS)


def test_every_scalar_has_a_kernel() -> None:
    assert SCALARS == {*KERNELS, *GENERATORS, "and", "or"}
