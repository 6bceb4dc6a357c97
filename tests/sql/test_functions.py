"""The function registry against the database: every example is executed, and properties of all functions are
checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

import nyala
import pytest
from nyala.errors import DataError, StatementError, UnknownFunction
from nyala.executor.expressions.kernel_table import GENERATORS, KERNELS
from nyala.shell.formats import texts
from nyala.sql import generate, parse
from nyala.sql.binding.clauses.series import TABLE_FUNCTIONS
from nyala.sql.functions import FUNCTIONS, OPERATIONS, REGISTRY, Function, build
from nyala.sql.functions.foreign_names import FOREIGN
from nyala.sql.functions.function import Operation
from nyala.sql.functions.reference import page
from sqlglot import exp

pytestmark = pytest.mark.embedded_only("reads no table: the same on every store")

SCALAR = [f for f in FUNCTIONS if f.kind == "scalar" and not f.volatile and f.most != 0]


@pytest.fixture(scope="module")
def connection() -> Iterator[nyala.Connection]:
    with nyala.connect(":memory:") as found:
        yield found


def shown(connection: nyala.Connection, query: str) -> str:
    """Return a query's rows as text: values separated by commas, rows by semicolons."""
    cursor = connection.execute(query)
    table = cursor.arrow()
    types = [column[1] for column in cursor.description]
    columns = [texts(column.combine_chunks(), type_) for column, type_ in zip(table.columns, types)]
    return "; ".join(", ".join("NULL" if value is None else value for value in row) for row in zip(*columns))


def arguments(function: Function) -> list[str]:
    """The arguments of the example's call, as SQL."""
    (parsed,) = parse(f"SELECT {function.example}")
    for call in parsed.tree.find_all(exp.Anonymous):
        if str(call.this).lower() in (function.name, *function.aliases):
            return [generate(arg) for arg in call.expressions]
    return []


# ---- the registry ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_example(connection: nyala.Connection, function: Function) -> None:
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


def test_every_scalar_has_a_kernel_and_every_kernel_a_name() -> None:
    assert {*KERNELS, *GENERATORS, "and", "or"} == OPERATIONS.keys()
    assert {name for function in SCALAR for name in function.canonical} <= OPERATIONS.keys()


def test_facts_stand_in_one_record() -> None:
    """A function with the name of an operator takes its facts from the operator."""
    facts = [field.name for field in fields(Operation) if field.name != "name"]
    for function in SCALAR:
        if OPERATIONS.get(function.name) is not function:
            assert not any(getattr(function, fact) for fact in facts), function.name


@pytest.mark.parametrize("name", sorted(n for n, f in REGISTRY.items() if f.kind == "scalar"))
def test_arguments_are_counted(name: str) -> None:
    function = REGISTRY[name]
    if function.least:
        with pytest.raises(UnknownFunction, match="was given no argument; it is"):
            build(name, ())
    if function.most is not None:
        with pytest.raises(UnknownFunction, match=f"{function.most + 1} argument"):
            build(name, (None,) * (function.most + 1))  # type: ignore[arg-type]


def test_the_page_is_what_the_registry_says() -> None:
    committed = (Path(nyala.__file__).parent / "docs" / "functions.md").read_text(encoding="utf-8")
    assert committed == page(), "write it with: python -m nyala.sql.functions > docs/functions.md"


def test_show_functions(connection: nyala.Connection) -> None:
    cursor = connection.execute("SHOW FUNCTIONS")
    assert [column[0] for column in cursor.description] == ["function", "signature", "kind", "category", "description"]
    assert [row[0] for row in cursor.fetchall()] == sorted(REGISTRY)
    found = connection.execute("SHOW FUNCTIONS LIKE 'l%pad'").fetchall()
    assert found == [("lpad", REGISTRY["lpad"].signature, "scalar", "text", REGISTRY["lpad"].description)]
    assert connection.execute("SHOW FUNCTIONS LIKE 'no such%'").fetchall() == []


# ---- what holds for all ----------------------------------------------------------------------------------------------


def is_strict(function: Function) -> bool:
    """True if NULL as any argument gives NULL."""
    operations = [OPERATIONS[name] for name in function.canonical]
    return bool(operations) and function.name != "nullif" and not any(o.skips_nulls for o in operations)


@pytest.mark.parametrize("function", [f for f in SCALAR if is_strict(f)], ids=lambda f: f.name)
def test_null_gives_null(connection: nyala.Connection, function: Function) -> None:
    args = arguments(function)
    tried = 0
    for position in range(len(args)):
        changed = [*args[:position], "NULL", *args[position + 1 :]]
        try:
            found = connection.execute(f"SELECT {function.name}({', '.join(changed)})").fetchall()
        except StatementError as error:
            assert "quoted unit" in str(error) or "constant" in str(error)
            continue
        tried += 1
        assert found == [(None,)], changed
    assert tried or not args


@pytest.mark.parametrize("function", SCALAR, ids=lambda f: f.name)
def test_a_column_gives_what_constants_give(connection: nyala.Connection, function: Function) -> None:
    args = arguments(function)
    if not args:
        return
    names = [f"c{i}" for i in range(len(args))]
    nulls = ", ".join(["NULL"] * len(args))
    table = f"(VALUES (1, {', '.join(args)}), (2, {nulls}), (3, {', '.join(args)})) AS t (k, {', '.join(names)})"
    used = list(args)
    for position, name in enumerate(names):
        if args[position] == "NULL":
            continue  # a column of nothing but NULL is a text
        changed = [*used[:position], name, *used[position + 1 :]]
        try:
            connection.execute(f"SELECT {function.name}({', '.join(changed)}) FROM {table} WHERE k <> 2").fetchall()
        except StatementError as error:
            assert "quoted unit" in str(error) or "constant" in str(error), error
            continue
        used = changed
    constant = connection.execute(f"SELECT {function.name}({', '.join(args)})").fetchall()
    call = f"{function.name}({', '.join(used)})"
    found = connection.execute(f"SELECT {call} FROM {table} ORDER BY k").fetchall()
    assert [found[0], found[2]] == constant * 2
    if is_strict(function) and used != args:
        assert found[1] == (None,)
    assert connection.execute(f"SELECT {call} FROM {table} WHERE k > 5").fetchall() == []


def test_volatile_functions_differ_from_row_to_row(connection: nyala.Connection) -> None:
    rows = connection.execute(
        "SELECT r, r, u FROM (SELECT random() AS r, gen_random_uuid() AS u FROM (VALUES (1), (2), (3)) AS t (x)) AS s"
    ).fetchall()
    assert len({row[0] for row in rows}) == len({row[2] for row in rows}) == 3
    assert all(row[0] == row[1] for row in rows)
    nothing = "SELECT count(*) FROM (SELECT random() AS r FROM (VALUES (1), (2), (3), (4)) AS t (x)) AS s"
    for _ in range(5):
        assert connection.execute(f"{nothing} WHERE r < 0.5 AND r >= 0.5").fetchall() == [(0,)]


def test_an_error_belongs_to_the_row_that_needs_the_value(connection: nyala.Connection) -> None:
    query = "SELECT CASE WHEN x > 0 THEN ln(x) ELSE 0 END FROM (VALUES (1), (0)) AS t (x) WHERE x >= 0"
    assert connection.execute(query).fetchall() == [(0.0,), (0.0,)]
    with pytest.raises(DataError, match="logarithm"):
        connection.execute("SELECT ln(x) FROM (VALUES (1), (0)) AS t (x)").fetchall()


# ---- messages and syntax ---------------------------------------------------------------------------------------------

GOLDEN = Path(__file__).parent / "golden"


def test_wrong_calls_say_what_is_wrong_and_where(
    golden: Callable[[Path, Callable[[str], str]], None], explain_binding: Callable[[str], str]
) -> None:
    golden(GOLDEN / "errors_functions.txt", explain_binding)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a ~ 'b', a ~* 'b', NOT a ~ 'b', a SIMILAR TO 'b' ESCAPE '!'",
        "SELECT a & b | c # d, ~a, a << 1, b >> 2, a ^ b * c",
        "SELECT a BETWEEN SYMMETRIC 1 AND 2, (a, b) < (1, 2)",
        "SELECT CURRENT_DATE, LOCALTIMESTAMP, INTERVAL '1-2' YEAR TO MONTH",
        "SHOW FUNCTIONS LIKE 'a%'",
    ],
)
def test_operators_are_written_as_they_are_read(text: str) -> None:
    (parsed,) = parse(text)
    assert generate(parsed.tree) == text
    (again,) = parse(generate(parsed.tree))
    assert again.tree == parsed.tree


def test_foreign_names_say_what_there_is_instead(connection):
    for name, instead in FOREIGN.items():
        assert name not in REGISTRY
        for called in re.findall(r"\b([a-z_]\w*)\(", instead):
            assert called in REGISTRY or called in TABLE_FUNCTIONS, f"{name}: {instead}"
    for name, instead in FOREIGN.items():
        with pytest.raises(UnknownFunction) as caught:
            connection.execute(f"SELECT {name}(1)")
        assert instead in str(caught.value)
        assert caught.value.sqlstate == "42883"
