"""Every kernel is called with hostile values; one that fails for a row must be declared (`fallible`, `overflows`).

A function that is not declared is computed for all rows: behind CASE, COALESCE, AND, OR and FILTER, a row that does not
need the value would then raise an error. The calls that reach a kernel are derived from the examples of the functions,
so a new function or kernel needs no change here; a kernel that no call reaches fails the last test. NYALA_CALLS=500
makes more calls of each function.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import nyala
import pyarrow as pa
import pytest
from nyala.errors import DataError, Error
from nyala.executor.expressions import kernel_table
from nyala.executor.expressions.evaluate import Compiler
from nyala.executor.expressions.expression_costs import is_fallible
from nyala.executor.expressions.kernel_table import KERNELS
from nyala.model.vectors.vector import Batch, vector_from_arrow
from nyala.sql import bind, generate, parse
from nyala.sql.expressions import Call, Window, walk
from nyala.sql.functions import FUNCTIONS, OPERATIONS, Function
from nyala.sql.functions.dates import PARTS
from sqlglot import exp

pytestmark = pytest.mark.embedded_only("computes rows of this process: the same on every store")

CALLS = int(os.environ.get("NYALA_CALLS", "25"))
ROWS = 60
NUMBERS, TEXTS, MOMENTS = "numbers", "texts", "moments"
HOSTILE: dict[str, tuple[str, tuple[str, ...]]] = {
    "TINYINT": (NUMBERS, ("-128", "0", "127", "-1")),
    "INT": (NUMBERS, ("-2147483648", "2147483647", "0", "-1", "3")),
    "BIGINT": (NUMBERS, ("-9223372036854775808", "9223372036854775807", "0", "1", "-1", "63", "64", "100")),
    "DECIMAL(9,2)": (NUMBERS, ("-9999999.99", "9999999.99", "0", "0.5", "-0.01")),
    "DECIMAL(38,0)": (NUMBERS, ("9" * 38, "-" + "9" * 38, "0", "1", "170")),
    "DECIMAL(38,10)": (NUMBERS, ("9" * 28 + ".9999999999", "-1.5", "0")),
    "DOUBLE": (NUMBERS, ("'nan'", "'inf'", "'-inf'", "1e308", "-1e308", "0", "-0.5", "2", "1000")),
    "STRING": (
        TEXTS,
        ("''", "'a'", "'-1'", "'('", "'[a'", "'a\\'", "'%'", "'2024-13-45'", "'zz'", "'1e999'", "'é😀'", "'YYYY'"),
    ),
    "BINARY": ("binaries", ("x''", "x'ff'", "x'e29882'")),
    "BOOLEAN": ("truths", ("TRUE", "FALSE")),
    "DATE": (MOMENTS, ("'0001-01-01'", "'9999-12-31'", "'2024-02-29'")),
    "TIMESTAMP": (MOMENTS, ("'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'", "'2024-02-29 12:00:00'")),
}
SPANS = ("0 days", "-9999 years", "2147483647 months", "-2147483647 days", "1 day", "2562047788 hours")
COLUMNS = {f"c{i}": kind for i, (kind, _) in enumerate(HOSTILE.values())} | {"CAST(s AS INTERVAL)": "spans"}
FALLIBLE = {name for name, operation in OPERATIONS.items() if operation.fallible}
OVERFLOWING = {name for name, operation in OPERATIONS.items() if operation.overflows}
KNOWN = FALLIBLE | OVERFLOWING | {"like", "ilike"}
COMPARED = {"eq", "ne", "lt", "le", "gt", "ge", "saturated", "array_quote", "record_field"}
"""Kernels that the evaluator calls through another path, or over results of other kernels alone."""
SIGNS = ("+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">=", "||", "&", "|", "#", "<<", ">>", "LIKE", "ILIKE")
OPERATORS = (
    *(f"{{}} {sign} {{}}" for sign in SIGNS),
    *("- {}", "~ {}", "NOT {}", "{} IS NULL", "{} IS TRUE", "{} IS FALSE", "{} IS DISTINCT FROM {}"),
    *("{} BETWEEN {} AND {}", "{} IN ({}, {})", "{} ~ {}", "{} ~* {}", "{} SIMILAR TO {}", "CAST({} AS STRING)"),
    *("({})[1]", "{} = ANY ({})", "ARRAY[{}, {}]", "ARRAY[{}] || ARRAY['a']", "pg_get_userbyid({})"),
    *("CASE WHEN {} THEN {} ELSE {} END", "date_trunc('week', {})", "TRY_CAST({} AS SMALLINT)"),
    *(f"EXTRACT({part} FROM {{}})" for part in sorted(PARTS)),
    *("to_timestamp({}, 'YYYY-MM-DD')", "to_char({}, '999D99')", "substring({} FROM '(a)')", "'a' ~ {}"),
    *("count(*) OVER (ORDER BY {} RANGE 1 PRECEDING)", "count(*) OVER (ORDER BY {} RANGE INTERVAL '1' DAY PRECEDING)"),
    "count(*) OVER (ORDER BY {} DESC RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND INTERVAL '1' MONTH FOLLOWING)",
)  # fmt: skip


@dataclass
class Hostile:
    """The table, and records of its kernels: those that were called, those that failed for a row."""

    connection: Any
    rows: Batch
    called: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    last: str = ""
    """The kernel that failed last."""

    def wrapped(self, name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the kernel with a recorder; a value outside its type counts as an error."""

        def call(*args: Any) -> Any:
            self.called.add(name)
            try:
                return kernel(*args)
            except DataError:
                self.refused.add(name)
                self.last = name
                raise

        return call

    def check(self, text: str) -> bool:
        """Execute the call; return True if the binder accepts it."""
        try:
            body = bind(parse(f"SELECT {text} FROM h")[0], self.connection.store).query.body
        except Error:
            return False
        ((_, expr),) = body.projection
        found = [expr]
        for _, window in body.windows:
            assert isinstance(window, Window)
            found = [part for part in (window.range_start, window.range_end) if part is not None]
        for each in found:
            self.last = ""
            try:
                Compiler(body.relation.columns).compile(each)(self.rows).to_arrow().to_pylist()
            except DataError as error:
                known = is_fallible(each) if not self.last else self.last in KNOWN
                assert known, f"{text}: {self.last or 'a cast'} refuses a row, and is not known to: {error}"
            except OverflowError as error:
                names = {part.function for part in walk(each) if isinstance(part, Call)}
                if not names & {"limit_before", "limit_after"}:  # their values are only compared
                    raise AssertionError(f"{text} has a value that is none of {each.type}") from error
        return True


@pytest.fixture(scope="module")
def hostile() -> Iterator[Hostile]:
    chosen = random.Random(1)
    with nyala.connect(":memory:", threads=1) as connection, pytest.MonkeyPatch.context() as patch:
        columns = ", ".join(f"c{i} {type_}" for i, type_ in enumerate(HOSTILE))
        connection.execute(f"CREATE TABLE h (k INT PRIMARY KEY, s STRING, {columns})")
        rows = []
        for row in range(ROWS):
            cells = (f"CAST({chosen.choice(values)} AS {type_})" for type_, (_, values) in HOSTILE.items())
            rows.append(f"({row}, '{chosen.choice(SPANS)}', {', '.join(cells)})")
        connection.execute(f"INSERT INTO h VALUES {', '.join(rows)}")
        data: pa.Table = connection.execute("SELECT * FROM h ORDER BY k").arrow()
        types = [column.type for column in connection.store.table("h").schema.columns]
        vectors = [vector_from_arrow(t, data.column(i).combine_chunks()) for i, t in enumerate(types)]
        found = Hostile(connection, Batch(vectors, ROWS))
        patch.setattr(kernel_table, "KERNELS", {name: found.wrapped(name, kernel) for name, kernel in KERNELS.items()})
        yield found


def _written(function: Function) -> list[tuple[str, list[str]]]:
    """Calls of the function in its example: name and arguments."""
    tree = parse(f"SELECT {function.example}")[0].tree
    calls = [node for node in tree.find_all(exp.Anonymous) if str(node.name).lower() == function.name]
    return [(function.name, [generate(arg) for arg in node.expressions]) for node in calls]


@cache
def _kind(text: str, connection: Any) -> str:
    """The kind of an argument in an example."""
    try:
        type_ = connection.execute(f"SELECT {text}").description[0][1]
    except Error:
        return ""
    names = {"STRING": TEXTS, "VARCHAR": TEXTS, "BINARY": "binaries", "BOOLEAN": "truths", "INTERVAL": "spans"}
    return MOMENTS if str(type_) in ("DATE", "TIMESTAMP") else names.get(str(type_).partition("(")[0], NUMBERS)


def _calls(function: Function, connection: Any, calls: int = CALLS) -> Iterator[str]:
    chosen = random.Random(function.name)
    examples = [args for _, args in _written(function)]
    most = function.most if function.most is not None else max(3, function.least)
    yield from (f"{function.name}({', '.join(args)})" for args in examples)
    for _ in range(calls):
        if not examples or chosen.random() < 0.2:
            count = chosen.randint(function.least, min(most, max(4, function.least)))
            yield f"{function.name}({', '.join(chosen.choices(list(COLUMNS), k=count))})"
            continue
        args = list(chosen.choice(examples))
        if len(args) > function.least and chosen.random() < 0.3:
            args.pop()
        # Of many arguments few are changed; otherwise the first wrong one would hide the others.
        changed = chosen.sample(range(len(args)), chosen.randint(1, min(2, len(args)))) if args else []
        given = [_hostile(arg, chosen, connection) if i in changed else arg for i, arg in enumerate(args)]
        yield f"{function.name}({', '.join(given)})"


def _hostile(arg: str, chosen: random.Random, connection: Any) -> str:
    """Draw an argument of the kind that the example has: the example's, a column, or a constant."""
    kind = _kind(arg, connection)
    columns = [name for name, its in COLUMNS.items() if its == kind]
    constants = [f"CAST({v} AS {type_})" for type_, (its, values) in HOSTILE.items() if its == kind for v in values]
    return chosen.choice([[arg], columns or [arg], columns or [arg], constants or [arg]][chosen.randrange(4)])


SCALAR = [f for f in FUNCTIONS if f.kind == "scalar" and f.most != 0 and not f.volatile]


@pytest.mark.parametrize("function", SCALAR, ids=lambda f: f.name)
def test_functions_that_refuse_a_row_are_known(hostile: Hostile, function: Function) -> None:
    assert sum(hostile.check(text) for text in dict.fromkeys(_calls(function, hostile.connection)))


def _operations(form: str, calls: int) -> Iterator[str]:
    chosen, columns, count = random.Random(form), list(COLUMNS), form.count("{}")
    if count == 1:
        yield from (form.format(column) for column in columns)
        return
    # Most operators take values of one type; intervals are added to dates and timestamps and multiplied by numbers.
    yield from (form.format(*[column] * count) for column in columns)
    for _ in range(calls):
        shape = chosen.random()
        args = chosen.choices(columns, k=count)
        if shape < 0.6:
            kind = COLUMNS[args[0]]
            args = chosen.choices([column for column in columns if COLUMNS[column] == kind], k=count)
        elif shape < 0.8:
            args[chosen.randrange(count)] = columns[-1]
        yield form.format(*args)


@pytest.mark.parametrize("form", OPERATORS)
def test_operators_that_refuse_a_row_are_known(hostile: Hostile, form: str) -> None:
    assert sum(hostile.check(text) for text in dict.fromkeys(_operations(form, CALLS)))


def test_every_kernel_is_called(hostile: Hostile) -> None:
    """Declared kernels do fail for rows, most of them with so few calls."""
    for function in SCALAR:
        for text in _calls(function, hostile.connection, 8):
            hostile.check(text)
    for form in OPERATORS:
        for text in _operations(form, 25):
            hostile.check(text)
    assert sorted(KERNELS.keys() - hostile.called - COMPARED) == []
    assert len(FALLIBLE - hostile.refused) < len(FALLIBLE) / 2, sorted(FALLIBLE - hostile.refused)
