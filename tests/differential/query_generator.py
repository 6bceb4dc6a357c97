"""Random queries that mean the same in nyala, DuckDB and SQLite.

    Query = [WITH] Select [set operation Select] [ORDER BY all columns [LIMIT]]

Everything is typed, so that no query is refused: an expression is asked for by kind ("int", "dec", "text", "date",
"bool"), and columns in scope are known with theirs. A subquery's scope has the surrounding columns, so that
correlation comes by itself. What the dialects do differently is left out: division by what may be zero, overflow,
collations, the order of NULLs where none is written, LIMIT without a total order.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

KINDS = ("int", "dec", "text", "date", "bool")


@dataclass(frozen=True)
class Column:
    """A column in scope: what to write for it, and its kind."""

    text: str
    kind: str


@dataclass(frozen=True)
class Table:
    """A table of the test database, with the kind of each column."""

    name: str
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Dialect:
    """What a second engine shares with nyala."""

    windows: bool = True
    grouping_sets: bool = True
    dates: bool = True
    quantified: bool = True
    set_operations: tuple[str, ...] = ("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
    full_joins: bool = True
    lateral: bool = True


DUCKDB = Dialect()
SQLITE = Dialect(
    grouping_sets=False,
    dates=False,
    quantified=False,
    set_operations=("UNION", "UNION ALL", "INTERSECT", "EXCEPT"),
    lateral=False,
)


@dataclass
class QueryGenerator:
    """Makes queries over `tables` from a seed."""

    seed: int
    tables: Sequence[Table]
    dialect: Dialect = DUCKDB
    _names: int = 0
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def query(self) -> str:
        """A whole query; where it has a LIMIT, its order is total."""
        with_, visible = self._with()
        kinds = [self._pick(self._kinds()) for _ in range(self.random.randint(1, 4))]
        text = self._select(kinds, visible, (), 2)
        if self._chance(0.15):
            operator = self._pick(self.dialect.set_operations)
            text = f"{text} {operator} {self._select(kinds, visible, (), 1)}"
        if self._chance(0.5):
            text += " ORDER BY " + ", ".join(f"{i + 1}{self._direction()}" for i in range(len(kinds)))
            if self._chance(0.5):
                text += f" LIMIT {self.random.randint(0, 12)}"
                text += f" OFFSET {self.random.randint(0, 4)}" if self._chance(0.3) else ""
        return with_ + text

    # ---- blocks ------------------------------------------------------------------------------------------------------

    def _with(self) -> tuple[str, list[Table]]:
        visible = list(self.tables)
        if not self._chance(0.2):
            return "", visible
        kinds = [self._pick(self._kinds()) for _ in range(3)]
        name = self._name("w")
        body = self._select(kinds, visible, (), 1, names=("x", "y", "z"))
        visible.append(Table(name, tuple(zip(("x", "y", "z"), kinds))))
        return f"WITH {name} AS ({body}) ", visible

    def _select(
        self,
        kinds: Sequence[str],
        visible: Sequence[Table],
        outer: tuple[Column, ...],
        depth: int,
        names: Sequence[str] = (),
    ) -> str:
        """One block with columns of the given kinds."""
        from_, own = self._from(visible, outer, depth)
        scope = Scope(self, own, outer, visible, depth)
        where = f" WHERE {scope.condition(2)}" if self._chance(0.7) else ""
        form = self.random.random()
        if form < 0.35:
            items, rest = scope.grouped(kinds)
        elif form < 0.5 and self.dialect.windows and depth > 1:
            items, rest = [scope.window(kind) for kind in kinds], ""
        else:
            items, rest = [scope.value(kind, 2) for kind in kinds], ""
        distinct = "DISTINCT " if self._chance(0.15) else ""
        listed = [f"{item} AS {names[i] if names else f'c{i}'}" for i, item in enumerate(items)]
        return f"SELECT {distinct}{', '.join(listed)} FROM {from_}{where}{rest}"

    def _from(self, visible: Sequence[Table], outer: tuple[Column, ...], depth: int) -> tuple[str, tuple[Column, ...]]:
        text, columns = self._relation(visible, outer, depth, lateral=False)
        for _ in range(self._pick((0, 0, 1, 1, 2))):
            lateral = self.dialect.lateral and depth > 1 and self._chance(0.1)
            right, more = self._relation(visible, columns, depth, lateral)
            kinds = ["JOIN", "LEFT JOIN", "CROSS JOIN"] + ([] if lateral else ["RIGHT JOIN"])
            kinds += ["FULL JOIN"] if self.dialect.full_joins and not lateral else []
            kind = self._pick(kinds)
            # Only the relations of this FROM may be named here; an equality keeps the result small.
            pair = self._equality(columns, more)
            on = "" if kind == "CROSS JOIN" else f" ON {pair}"
            if on and self._chance(0.3):
                both = Scope(self, columns + more, (), visible, 0)
                on += f" AND {both.condition(1)}"
            text, columns = f"{text} {kind} {right}{on}", columns + more
        return text, columns

    def _relation(
        self, visible: Sequence[Table], outer: tuple[Column, ...], depth: int, lateral: bool
    ) -> tuple[str, tuple[Column, ...]]:
        alias = self._name("t")
        if lateral or (depth > 0 and self._chance(0.15)):
            kinds = [self._pick(self._kinds()) for _ in range(2)]
            body = self._select(kinds, visible, outer if lateral else (), depth - 1, names=("p", "q"))
            text = f"{'LATERAL ' if lateral else ''}({body}) AS {alias}"
            return text, tuple(Column(f"{alias}.{name}", kind) for name, kind in zip(("p", "q"), kinds))
        table = self._pick(visible)
        return f"{table.name} AS {alias}", tuple(Column(f"{alias}.{name}", kind) for name, kind in table.columns)

    def _equality(self, left: Sequence[Column], right: Sequence[Column]) -> str:
        pairs = [(a, b) for a in left for b in right if a.kind == b.kind and a.kind != "bool"]
        if not pairs:
            return "1 = 1"
        a, b = self._pick(pairs)
        return f"{a.text} = {b.text}"

    # ---- chances -----------------------------------------------------------------------------------------------------

    def _kinds(self) -> tuple[str, ...]:
        return ("int", "int", "text", "bool", "dec", "date") if self.dialect.dates else ("int", "int", "text", "bool")

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def _pick(self, items):  # type: ignore[no-untyped-def]
        return self.random.choice(items)

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _direction(self) -> str:
        return self._pick((" NULLS FIRST", " NULLS LAST", " DESC NULLS FIRST", " DESC NULLS LAST"))


class Scope:
    """Expressions over the columns of one block and those around it."""

    def __init__(
        self,
        maker: QueryGenerator,
        own: tuple[Column, ...],
        outer: tuple[Column, ...],
        visible: Sequence[Table],
        depth: int,
    ) -> None:
        self._maker = maker
        self._own = own
        self._outer = outer
        self._visible = visible
        self._depth = depth

    # ---- values ------------------------------------------------------------------------------------------------------

    def value(self, kind: str, depth: int) -> str:
        """An expression of a kind."""
        maker = self._maker
        if kind == "bool":
            return f"({self.condition(min(depth, 1))})"
        if depth <= 0 or maker._chance(0.4):
            return self._leaf(kind)
        if self._depth > 0 and maker._chance(0.08):
            return self._scalar_subquery(kind)
        a, b = self.value(kind, depth - 1), self.value(kind, depth - 1)
        test = self.comparison(0)
        forms = [f"coalesce({a}, {b})", f"CASE WHEN {test} THEN {a} ELSE {b} END", f"nullif({a}, {b})"]
        forms += [f"CASE WHEN {test} THEN {a} END"]
        return str(maker._pick(forms + self._forms(kind, a, b)))

    def _forms(self, kind: str, a: str, b: str) -> list[str]:
        text, number = self._leaf("text"), self._leaf("int")
        constant = self._maker.random.randint(2, 7)
        if kind == "int":
            forms = [f"({a} + {b})", f"({a} - {b})", f"({self._leaf('int')} * {constant})", f"abs({a})", f"(- {a})"]
            return [*forms, f"({a} / {constant})", f"({a} % {constant})", f"length({text})"]
        if kind == "dec":
            return [f"({a} + {b})", f"({a} - {b})", f"({self._leaf('dec')} * {constant})", f"abs({a})"]
        if kind == "text":
            forms = [f"({a} || {b})", f"upper({a})", f"lower({a})", f"substr({a}, {constant - 1}, 2)"]
            return [*forms, f"replace({a}, 'a', 'bc')", f"CAST({number} AS VARCHAR)", f"trim({a})"]
        return []

    def _leaf(self, kind: str) -> str:
        maker = self._maker
        known = [c.text for c in self._own if c.kind == kind]
        around = [c.text for c in self._outer if c.kind == kind]
        if around and maker._chance(0.4):
            return str(maker._pick(around))
        if known and maker._chance(0.8):
            return str(maker._pick(known))
        return self._constant(kind)

    def _constant(self, kind: str) -> str:
        pick = self._maker._pick
        if kind == "int":
            return str(pick((-3, -1, 0, 1, 2, 3, 5, 8, 40)))
        if kind == "dec":
            return str(pick(("CAST(0.50 AS DECIMAL(9,2))", "CAST(-1.25 AS DECIMAL(9,2))", "CAST(10 AS DECIMAL(9,2))")))
        if kind == "text":
            return str(pick(("'a'", "'b'", "''", "'abc'", "'zz'", "'B c'")))
        return str(pick(("DATE '2024-01-31'", "DATE '2024-02-29'", "DATE '2023-12-31'")))

    # ---- conditions --------------------------------------------------------------------------------------------------

    def condition(self, depth: int) -> str:
        """A predicate."""
        maker = self._maker
        if depth > 0 and maker._chance(0.45):
            a, b = self.condition(depth - 1), self.condition(depth - 1)
            return str(maker._pick((f"({a} AND {b})", f"({a} OR {b})", f"NOT ({a})", f"({a} OR NOT ({b}))")))
        if self._depth > 0 and maker._chance(0.15):
            return self._subquery_test()
        return self.comparison(1)

    def comparison(self, depth: int) -> str:
        """A predicate without AND, OR and subqueries of its own."""
        maker = self._maker
        kinds = ("int", "int", "text", "dec", "date") if maker.dialect.dates else ("int", "int", "text")
        kind = maker._pick(kinds)
        a, b = self.value(kind, depth), self.value(kind, depth)
        forms = [f"{a} {maker._pick(('=', '<>', '<', '<=', '>', '>='))} {b}"] * 4
        forms += [f"{a} IS NULL", f"{a} IS NOT NULL", f"{a} BETWEEN {b} AND {self._leaf(kind)}"]
        forms += [
            f"{a} IN ({b}, {self._constant(kind)}, {self._leaf(kind)})",
            f"{a} NOT IN ({b}, {self._constant(kind)})",
        ]
        forms += [f"{a} IS NOT DISTINCT FROM {b}", f"{a} IS DISTINCT FROM {b}"]
        if kind == "text":
            pattern = maker._pick(("'a%'", "'%b%'", "'_'", "'%'", "'a_c'"))
            forms += [f"{a} LIKE {pattern}", f"{a} NOT LIKE {pattern}"]
        known = [c.text for c in self._own if c.kind == "bool"]
        if known:
            forms.append(maker._pick(known))
        return str(maker._pick(forms))

    def _inner(self, kinds: Sequence[str]) -> str:
        """A subquery that sees this block's columns."""
        seen = self._own + self._outer
        return self._maker._select(kinds, self._visible, seen, self._depth - 1)

    def _subquery_test(self) -> str:
        maker = self._maker
        kind = maker._pick(("int", "text"))
        negation = maker._pick(("", "NOT "))
        forms = [f"{negation}EXISTS ({self._inner((kind,))})"] * 2
        forms += [f"{self.value(kind, 1)} {negation}IN ({self._inner((kind,))})"] * 2
        if maker.dialect.quantified:
            comparison = f"{maker._pick(('=', '<', '>=', '<>'))} {maker._pick(('ANY', 'ALL'))}"
            forms.append(f"{self.value(kind, 1)} {comparison} ({self._inner((kind,))})")
        forms.append(f"{self.value(kind, 1)} > {self._scalar_subquery(kind)}")
        return str(maker._pick(forms))

    def _scalar_subquery(self, kind: str) -> str:
        """An aggregate without GROUP BY: one row, always."""
        maker = self._maker
        from_, own = maker._from(self._visible, (), 0)
        scope = Scope(maker, own, self._own + self._outer, self._visible, self._depth - 1)
        where = f" WHERE {scope.condition(1)}" if maker._chance(0.8) else ""
        return f"(SELECT {scope.aggregate(kind)} FROM {from_}{where})"

    # ---- groups and windows ------------------------------------------------------------------------------------------

    def aggregate(self, kind: str) -> str:
        """An aggregate call whose result is of a kind."""
        maker = self._maker
        plain = Scope(maker, self._own, (), self._visible, 0)
        if kind == "int":
            pick = maker._pick(
                (
                    "count(*)",
                    f"count({plain._leaf(maker._pick(('int', 'text')))})",
                    f"count(DISTINCT {plain.value('int', 1)})",
                    f"sum({plain.value('int', 1)})",
                    f"min({plain.value('int', 1)})",
                    f"max({plain.value('int', 1)})",
                )
            )
        elif kind == "bool":
            return f"(count(*) > {maker.random.randint(0, 4)})"
        else:
            pick = f"{maker._pick(('min', 'max'))}({plain.value(kind, 1)})"
        if maker._chance(0.15):
            pick += f" FILTER (WHERE {plain.condition(1)})"
        return str(pick)

    def grouped(self, kinds: Sequence[str]) -> tuple[list[str], str]:
        """The items of a grouped block, and its GROUP BY and HAVING."""
        maker = self._maker
        plain = Scope(maker, self._own, (), self._visible, 0)
        keys: list[tuple[str, str]] = []
        items = []
        for kind in kinds:
            if kind != "bool" and maker._chance(0.5):
                key = plain._leaf(kind) if maker._chance(0.7) else plain.value(kind, 1)
                # A constant in GROUP BY would be a position.
                key = key if any(c.text in key for c in self._own) else f"coalesce({key}, {key})"
                keys.append((kind, key))
                items.append(key)
            else:
                items.append(self.aggregate(kind))
        if not keys:
            return items, ""
        having = f" HAVING count(*) > {maker.random.randint(0, 2)}" if maker._chance(0.2) else ""
        listed = ", ".join(dict.fromkeys(key for _, key in keys))
        if maker.dialect.grouping_sets and maker._chance(0.2):
            return items, f" GROUP BY {maker._pick(('ROLLUP', 'CUBE'))} ({listed}){having}"
        return items, f" GROUP BY {listed}{having}"

    def window(self, kind: str) -> str:
        """A window call where the kind has one whose result does not depend on the order of ties."""
        maker = self._maker
        plain = Scope(maker, self._own, (), self._visible, 0)
        part = f"PARTITION BY {plain._leaf(maker._pick(('int', 'text')))} " if maker._chance(0.6) else ""
        order = f"ORDER BY {plain.value('int', 1)}{maker._direction()}" if maker._chance(0.7) else ""
        frame = ""
        if order and maker._chance(0.4):
            frame = maker._pick(
                (
                    " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                    " RANGE BETWEEN 2 PRECEDING AND 3 FOLLOWING",
                    " GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
                    " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
                )
            )
        if kind == "int":
            calls = [f"count({plain._leaf('text')})", f"sum({plain._leaf('int')})", f"max({plain._leaf('int')})"]
            if order:
                calls += ["rank()", "dense_rank()"]
            call = maker._pick(calls)
            frame = "" if "rank" in call else frame
            return f"{call} OVER ({part}{order}{frame})"
        if kind in ("dec", "text", "date"):
            return f"{maker._pick(('min', 'max'))}({plain._leaf(kind)}) OVER ({part}{order}{frame})"
        return self.value(kind, 1)
