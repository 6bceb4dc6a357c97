"""Rarer forms of expressions, tables and calls, which the generator of queries mixes in.

Each function gives texts that mean the same in nyala and in the dialect's engine. What an engine does otherwise than
PostgreSQL is left out: DuckDB takes rows in IN for structs, whose NULLs are equal; its corr() of a constant is NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from differential.query_generator import Column, QueryGenerator, Scope


EXTREME = ("9223372036854775807", "-9223372036854775808", "123456789012345678901234567.5", "-0.0005")
"""Constants at the ends of 64 bits, beyond them, and of a scale that no column has."""


def values(scope: Scope, kind: str, a: str, b: str, dates: bool) -> list[str]:
    """Expressions of a kind over two others of that kind."""
    leaf = scope.leaf
    simple = f"CASE {leaf('int')} WHEN 1 THEN {a} WHEN 2 THEN {b} WHEN NULL THEN {b} END"
    if kind == "int":
        forms = [simple, f"CAST(CAST({a} AS VARCHAR) AS INT)", *divisions(scope, a)]
        if dates:
            part = scope.maker.pick(("year", "month", "day", "quarter", "doy", "isodow"))
            forms += [f"CAST(EXTRACT({part} FROM {leaf('date')}) AS INT)", f"({leaf('date')} - {leaf('date')})"]
        return forms
    if kind == "dec":
        wide = scope.maker.pick(("0.5", "0.123456789012", "12345678901234567890123456", "-98765432109876543210.5"))
        larger = f"CASE WHEN {a} < {wide} THEN {a} ELSE {b} END"
        return [simple, larger, f"round({a}, 1)", f"round({a})", f"floor({a})", f"ceil({a})"]
    if kind == "date":
        unit = scope.maker.pick(("month", "year", "quarter", "week"))
        steps = [f"CAST({a} + INTERVAL '{n}' MONTH AS DATE)" for n in (1, 13)]
        return [simple, f"({a} + 40)", f"({a} - 3)", f"CAST(date_trunc('{unit}', {a}) AS DATE)", *steps]
    return [simple]


def nested(scope: Scope, kind: str, a: str) -> str:
    """An expression some hundred levels deep, or with a hundred operands, that is equal to another."""
    levels = scope.maker.pick((50, 120, 250))
    forms = [f"{'(' * levels}{a}{')' * levels}", f"{'coalesce(' * levels}{a}{')' * levels}"]
    forms += ["".join(f"CASE WHEN {n} = 0 THEN NULL ELSE " for n in range(1, levels)) + a + " END" * (levels - 1)]
    if kind == "int":
        forms += [f"({a}{' + 0' * levels})", f"({a} + {' + '.join(['1'] * levels)} - {levels})"]
    return str(scope.maker.pick(forms))


def divisions(scope: Scope, a: str) -> list[str]:
    """Divisions that no row with a divisor of 0 comes to. The other engines give NULL there, nyala an error."""
    by, constant = scope.leaf("int"), scope.constant("int")
    forms = [
        f"coalesce(CASE WHEN {by} = 0 THEN {a} END, {a} / {by})",
        f"CASE WHEN {by} = 0 THEN {a} ELSE {a} / {by} END",
        f"coalesce(nullif({a}, {a} - {by}), 100 / nullif({by}, 0))",
    ]
    if scope.nests:
        forms += [
            f"CASE WHEN {by} = 0 THEN {a} WHEN {by} > 0 THEN (SELECT {constant} / {by}) END",
            f"coalesce(CASE WHEN {by} = 0 THEN coalesce({a}, 0) END, (SELECT max(q.k / {by}) FROM {scope.table()} q))",
            f"CASE WHEN {by} > 1000 THEN (SELECT q.k FROM {scope.table()} q) ELSE {a} END",
        ]
        # Only rows of q that no outer row meets divide by 0.
        met = f"q.k = CASE WHEN {by} = 3 THEN 4 ELSE {by} END"
        forms += [
            f"(SELECT 60 / (q.k - 3) FROM {scope.table()} q WHERE {met})",
            f"(SELECT max(60 / (q.k - 3)) FROM {scope.table()} q WHERE {met})",
            f"(SELECT count(*) FROM {scope.table()} q WHERE {met} AND 60 / (q.k - 3) > {constant})",
            f"CASE WHEN {constant} IN (SELECT 60 / (q.k - 3) FROM {scope.table()} q WHERE {met}) THEN {a} END",
        ]
    return forms


def tests(scope: Scope, a: str, b: str, constant: str, rows: bool) -> list[str]:
    """Predicates over two expressions of one kind; `rows`: those of rows, too."""
    text, number, other = scope.leaf("text"), scope.leaf("int"), scope.leaf("int")
    forms = [
        f"{a} IN ({b}, NULL, {constant})",
        f"{a} NOT IN ({constant}, NULL)",
        f"{number} {scope.maker.pick(('', 'NOT '))}IN ({', '.join(str(7 * n - 70) for n in range(300))}, {other})",
        f"{number} IN ({other}, CASE WHEN {other} = 0 THEN {number} ELSE 12 / {other} END)",
        f"{number} {scope.maker.pick(('=', '<', '>='))} {scope.maker.pick(EXTREME)}",
        f"{number} IN ({scope.maker.pick(EXTREME)}, {scope.maker.pick(EXTREME)}, {other})",
        f"({number} = {other} OR CASE WHEN {other} = 0 THEN NULL ELSE 12 / {other} > 2 END)",
        f"{text} LIKE '%!_%' ESCAPE '!'",
        f"{text} NOT LIKE 'a!%_%' ESCAPE '!'",
    ]
    if rows:
        sign = scope.maker.pick(("=", "<>", "<", ">="))
        forms += [f"({a}, {number}) {sign} ({b}, {other})"]
        forms += [f"({number}, {other}) {scope.maker.pick(('', 'NOT '))}IN (VALUES (1, 2), (2, NULL), (0, 1))"]
    return forms


def values_table(maker: QueryGenerator, alias: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """A VALUES list in FROM, and its columns with their kinds."""
    numbers, texts = ("NULL", "0", "1", "2", "-1"), ("NULL", "'a'", "'b'", "''", "'zz'")
    rows = [f"({maker.pick(numbers)}, {maker.pick(texts)})" for _ in range(maker.random.randint(1, 4))]
    # The first row gives the types.
    return f"(VALUES (3, 'abc'), {', '.join(rows)}) AS {alias} (p, q)", (("p", "int"), ("q", "text"))


def recursion(maker: QueryGenerator, name: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """A recursive query of a few rounds: `name (x, y, z) AS (...)`, and its columns with their kinds."""
    union = maker.pick(("UNION ALL", "UNION"))
    start = maker.pick(
        ("SELECT 1, 'a', 2", "SELECT t.k, t.s, t.a FROM u AS t WHERE t.k < 4", "SELECT t.k, t.s, t.k % 2 FROM v AS t")
    )
    step = maker.pick(
        (
            f"SELECT {name}.x + 1, {name}.y || 'b', {name}.z * 2 % 7 FROM {name} WHERE {name}.x < 6",
            f"SELECT {name}.x + 1, t.s, t.a FROM {name} JOIN r AS t ON t.k = {name}.x WHERE {name}.x < 6",
            f"SELECT {name}.x + 2, {name}.y, t.a FROM {name} LEFT JOIN u AS t ON t.a = {name}.z WHERE {name}.x < 5",
        )
    )
    return f"{name} (x, y, z) AS ({start} {union} {step})", (("x", "int"), ("y", "text"), ("z", "int"))


def ordered_window(scope: Scope, kind: str, part: str, order: str) -> str:
    """A window call that needs a total order of its partition's rows."""
    maker = scope.maker
    arg = scope.leaf(kind)
    calls = [f"lag({arg})", f"lead({arg}, 2)", f"lag({arg}, 1, {scope.constant(kind)})"]
    framed = [f"first_value({arg})", f"last_value({arg})", f"nth_value({arg}, 2)", f"min({arg})"]
    if kind == "int":
        calls += ["row_number()", f"ntile({maker.random.randint(1, 4)})", "rank()"]
        framed += [f"sum({arg})", f"count({arg})"]
    frame = maker.pick(
        (
            "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            "ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING",
            "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
            "ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
            "ROWS 2 PRECEDING",
        )
    )
    if maker.chance(0.5):
        return f"{maker.pick(calls)} OVER ({part}ORDER BY {order})"
    return f"{maker.pick(framed)} OVER ({part}ORDER BY {order} {frame})"


def aggregates(scope: Scope, kind: str) -> list[str]:
    """Aggregate calls of a kind: texts in their order, and statistics, rounded as they are not exact."""
    order = scope.total_order()
    if kind == "text" and order and scope.maker.dialect.ordered_aggregates:
        return [f"string_agg({scope.leaf('text')}, '-' ORDER BY {order})"]
    if kind == "int" and scope.maker.dialect.statistics:
        name = scope.maker.pick(("stddev_samp", "stddev_pop", "var_samp", "var_pop"))
        pair = scope.maker.pick(("covar_samp", "covar_pop", "regr_count"))
        calls = [f"{name}({scope.leaf('int')})", f"{pair}({scope.leaf('int')}, {scope.leaf('int')})"]
        # The last bit differs, and must not decide: variances of integers have many halves among their thousandths.
        return [f"CAST(round(1000 * {call} + 0.123456) AS INT)" for call in calls]
    return []


def keyed(own: tuple[Column, ...]) -> str | None:
    """The order by the keys of all relations, which is total; None where one of them has no key."""
    relations = {column.text.partition(".")[0] for column in own}
    keys = [f"{relation}.k" for relation in sorted(relations)]
    known = {column.text for column in own}
    return ", ".join(f"{key} NULLS LAST" for key in keys) if keys and known.issuperset(keys) else None
