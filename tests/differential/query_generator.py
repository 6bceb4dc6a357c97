"""Random queries that mean the same in nyala, DuckDB and SQLite.

    Query = [WITH] Select [set operation Select] [ORDER BY all columns [LIMIT]]

Everything is typed, so that no query is refused: an expression is requested by kind ("int", "dec", "text", "date",
"bool"), and columns in scope are known with theirs. A subquery's scope has the surrounding columns, so that
correlation comes by itself. What the dialects do differently is left out: division by what may be zero, overflow,
collations, the order of NULLs where none is written, LIMIT without a total order.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from differential import forms as rare

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
    """Features that a second engine shares with nyala."""

    windows: bool = True
    grouping_sets: bool = True
    dates: bool = True
    quantified: bool = True
    set_operations: tuple[str, ...] = ("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
    full_joins: bool = True
    lateral: bool = True
    statistics: bool = True
    ordered_aggregates: bool = True
    snapshot_writes: bool = True
    """A statement that changes a table reads it as it was before."""
    rows: bool = False
    """Comparisons of rows."""
    values_in_from: bool = True
    distinct_on: bool = True
    nested_set_operations: bool = True


DUCKDB = Dialect()
SQLITE = Dialect(
    grouping_sets=False,
    dates=False,
    quantified=False,
    set_operations=("UNION", "UNION ALL", "INTERSECT", "EXCEPT"),
    lateral=False,
    statistics=False,
    ordered_aggregates=False,
    snapshot_writes=False,
    rows=True,
    values_in_from=False,
    distinct_on=False,
    nested_set_operations=False,
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
        kinds = [self.pick(self._kinds()) for _ in range(self.random.randint(1, 4))]
        if self.dialect.distinct_on and self.chance(0.05):
            return with_ + self._distinct_on(kinds, visible)
        text = self._select(kinds, visible, (), 2)
        if self.chance(0.15):
            operator = self.pick(self.dialect.set_operations)
            text = f"{text} {operator} {self._select(kinds, visible, (), 1)}"
            if self.dialect.nested_set_operations and self.chance(0.4):
                operator, other = self.pick(self.dialect.set_operations), self._select(kinds, visible, (), 1)
                text = f"({text}) {operator} {other}" if self.chance(0.5) else f"{other} {operator} ({text})"
        if self.chance(0.5):
            text += " ORDER BY " + ", ".join(f"{i + 1}{self._direction()}" for i in range(len(kinds)))
            if self.chance(0.5):
                text += f" LIMIT {self.random.randint(0, 12)}"
                text += f" OFFSET {self.random.randint(0, 4)}" if self.chance(0.3) else ""
        return with_ + text

    # ---- blocks ------------------------------------------------------------------------------------------------------

    def _distinct_on(self, kinds: Sequence[str], visible: Sequence[Table]) -> str:
        """Of the rows equal in the first column the first one; the order of all columns makes it known which."""
        order = ", ".join(f"{i + 1}{self._direction()}" for i in range(len(kinds)))
        return f"SELECT DISTINCT ON (c0) * FROM ({self._select(kinds, visible, (), 2)}) AS t ORDER BY {order}"

    def _with(self) -> tuple[str, list[Table]]:
        visible = list(self.tables)
        if not self.chance(0.2):
            return "", visible
        if self.chance(0.25):
            name = self._name("w")
            recursive, columns = rare.recursion(self, name)
            return f"WITH RECURSIVE {recursive} ", [*visible, Table(name, columns)]
        kinds = [self.pick(self._kinds()) for _ in range(3)]
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
        where = f" WHERE {scope.condition(2)}" if self.chance(0.7) else ""
        form = self.random.random()
        if form < 0.35:
            items, rest = scope.grouped(kinds)
        elif form < 0.5 and self.dialect.windows and depth > 1:
            items, rest = [scope.window(kind) for kind in kinds], scope.qualify()
        else:
            items, rest = [scope.value(kind, 2) for kind in kinds], ""
        distinct = "DISTINCT " if self.chance(0.15) else ""
        listed = [f"{item} AS {names[i] if names else f'c{i}'}" for i, item in enumerate(items)]
        return f"SELECT {distinct}{', '.join(listed)} FROM {from_}{where}{rest}"

    def _from(self, visible: Sequence[Table], outer: tuple[Column, ...], depth: int) -> tuple[str, tuple[Column, ...]]:
        text, columns = self._relation(visible, outer, depth, lateral=False)
        for _ in range(self.pick((0, 0, 1, 1, 2))):
            lateral = self.dialect.lateral and depth > 1 and self.chance(0.1)
            right, more = self._relation(visible, columns, depth, lateral)
            kinds = ["JOIN", "LEFT JOIN", "CROSS JOIN"] + ([] if lateral else ["RIGHT JOIN"])
            kinds += ["FULL JOIN"] if self.dialect.full_joins and not lateral else []
            kind = self.pick(kinds)
            # Only the relations of this FROM may be named here; an equality keeps the result small.
            pair = self._equality(columns, more)
            on = "" if kind == "CROSS JOIN" else f" ON {pair}"
            # With more relations on the left a name could be there twice.
            shared = (
                [c.text for c in more if c.text.endswith((".k", ".s"))] if not lateral and " " not in text[5:] else []
            )
            if on and shared and self.chance(0.15) and {s.partition(".")[2] for s in shared} <= _names_of(columns):
                using = ", ".join(s.partition(".")[2] for s in shared)
                text, columns = f"{text} {kind} {right} USING ({using})", columns + more
                continue
            if on and self.chance(0.3):
                both = Scope(self, columns + more, (), visible, 0)
                on += f" AND {both.condition(1)}"
            text, columns = f"{text} {kind} {right}{on}", columns + more
        return text, columns

    def _relation(
        self, visible: Sequence[Table], outer: tuple[Column, ...], depth: int, lateral: bool
    ) -> tuple[str, tuple[Column, ...]]:
        alias = self._name("t")
        if not lateral and self.dialect.values_in_from and self.chance(0.05):
            text, listed = rare.values_table(self, alias)
            return text, tuple(Column(f"{alias}.{name}", kind) for name, kind in listed)
        if lateral or (depth > 0 and self.chance(0.15)):
            kinds = [self.pick(self._kinds()) for _ in range(2)]
            body = self._select(kinds, visible, outer if lateral else (), depth - 1, names=("p", "q"))
            text = f"{'LATERAL ' if lateral else ''}({body}) AS {alias}"
            return text, tuple(Column(f"{alias}.{name}", kind) for name, kind in zip(("p", "q"), kinds))
        table = self.pick(visible)
        return f"{table.name} AS {alias}", tuple(Column(f"{alias}.{name}", kind) for name, kind in table.columns)

    def _equality(self, left: Sequence[Column], right: Sequence[Column]) -> str:
        pairs = [(a, b) for a in left for b in right if a.kind == b.kind and a.kind != "bool"]
        if not pairs:
            return "1 = 1"
        a, b = self.pick(pairs)
        return f"{a.text} = {b.text}"

    # ---- chances -----------------------------------------------------------------------------------------------------

    def _kinds(self) -> tuple[str, ...]:
        return ("int", "int", "text", "bool", "dec", "date") if self.dialect.dates else ("int", "int", "text", "bool")

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, items):  # type: ignore[no-untyped-def]
        return self.random.choice(items)

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _direction(self) -> str:
        return self.pick((" NULLS FIRST", " NULLS LAST", " DESC NULLS FIRST", " DESC NULLS LAST"))


def _names_of(columns: Sequence[Column]) -> set[str]:
    return {column.text.partition(".")[2] for column in columns}


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
        self.maker = maker
        self._own = own
        self._outer = outer
        self._visible = visible
        self._depth = depth

    # ---- values ------------------------------------------------------------------------------------------------------

    def value(self, kind: str, depth: int) -> str:
        """An expression of a kind."""
        maker = self.maker
        if kind == "bool":
            return f"({self.condition(min(depth, 1))})"
        if depth <= 0 or maker.chance(0.4):
            return self.leaf(kind)
        if self._depth > 0 and maker.chance(0.08):
            return self._scalar_subquery(kind)
        a, b = self.value(kind, depth - 1), self.value(kind, depth - 1)
        test = self.comparison(0)
        forms = [f"coalesce({a}, {b})", f"CASE WHEN {test} THEN {a} ELSE {b} END", f"nullif({a}, {b})"]
        forms += [f"CASE WHEN {test} THEN {a} END"]
        if maker.chance(0.15):
            return str(maker.pick(rare.values(self, kind, a, b, maker.dialect.dates)))
        if maker.dialect.nested_set_operations and maker.chance(0.02):
            return rare.nested(self, kind, a)
        return str(maker.pick(forms + self._forms(kind, a, b)))

    def _forms(self, kind: str, a: str, b: str) -> list[str]:
        text, number = self.leaf("text"), self.leaf("int")
        constant = self.maker.random.randint(2, 7)
        if kind == "int":
            forms = [f"({a} + {b})", f"({a} - {b})", f"({self.leaf('int')} * {constant})", f"abs({a})", f"(- {a})"]
            return [*forms, f"({a} / {constant})", f"({a} % {constant})", f"length({text})"]
        if kind == "dec":
            return [f"({a} + {b})", f"({a} - {b})", f"({self.leaf('dec')} * {constant})", f"abs({a})"]
        if kind == "text":
            forms = [f"({a} || {b})", f"upper({a})", f"lower({a})", f"substr({a}, {constant - 1}, 2)"]
            return [*forms, f"replace({a}, 'a', 'bc')", f"CAST({number} AS VARCHAR)", f"trim({a})"]
        return []

    @property
    def nests(self) -> bool:
        """True if an expression here may have subqueries."""
        return self._depth > 0 and self.maker.dialect.dates

    def table(self) -> str:
        """The name of a table that has a key k."""
        return str(self.maker.pick(self.maker.tables).name)

    def leaf(self, kind: str) -> str:
        maker = self.maker
        known = [c.text for c in self._own if c.kind == kind]
        around = [c.text for c in self._outer if c.kind == kind]
        if around and maker.chance(0.4):
            return str(maker.pick(around))
        if known and maker.chance(0.8):
            return str(maker.pick(known))
        return self.constant(kind)

    def constant(self, kind: str) -> str:
        pick = self.maker.pick
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
        maker = self.maker
        if depth > 0 and maker.chance(0.45):
            a, b = self.condition(depth - 1), self.condition(depth - 1)
            return str(maker.pick((f"({a} AND {b})", f"({a} OR {b})", f"NOT ({a})", f"({a} OR NOT ({b}))")))
        if self._depth > 0 and maker.chance(0.15):
            return self._subquery_test()
        return self.comparison(1)

    def comparison(self, depth: int) -> str:
        """A predicate without AND, OR and subqueries of its own."""
        maker = self.maker
        kinds = ("int", "int", "text", "dec", "date") if maker.dialect.dates else ("int", "int", "text")
        kind = maker.pick(kinds)
        a, b = self.value(kind, depth), self.value(kind, depth)
        forms = [f"{a} {maker.pick(('=', '<>', '<', '<=', '>', '>='))} {b}"] * 4
        forms += [f"{a} IS NULL", f"{a} IS NOT NULL", f"{a} BETWEEN {b} AND {self.leaf(kind)}"]
        forms += [
            f"{a} IN ({b}, {self.constant(kind)}, {self.leaf(kind)})",
            f"{a} NOT IN ({b}, {self.constant(kind)})",
        ]
        if maker.chance(0.15):
            return str(maker.pick(rare.tests(self, a, b, self.constant(kind), maker.dialect.rows)))
        forms += [f"{a} IS NOT DISTINCT FROM {b}", f"{a} IS DISTINCT FROM {b}"]
        if kind == "text":
            pattern = maker.pick(("'a%'", "'%b%'", "'_'", "'%'", "'a_c'"))
            forms += [f"{a} LIKE {pattern}", f"{a} NOT LIKE {pattern}"]
        known = [c.text for c in self._own if c.kind == "bool"]
        if known:
            forms.append(maker.pick(known))
        return str(maker.pick(forms))

    def _inner(self, kinds: Sequence[str]) -> str:
        """A subquery that sees this block's columns."""
        seen = self._own + self._outer
        return self.maker._select(kinds, self._visible, seen, self._depth - 1)

    def _subquery_test(self) -> str:
        maker = self.maker
        kind = maker.pick(("int", "text"))
        negation = maker.pick(("", "NOT "))
        forms = [f"{negation}EXISTS ({self._inner((kind,))})"] * 2
        forms += [f"{self.value(kind, 1)} {negation}IN ({self._inner((kind,))})"] * 2
        if maker.dialect.quantified:
            comparison = f"{maker.pick(('=', '<', '>=', '<>'))} {maker.pick(('ANY', 'ALL'))}"
            forms.append(f"{self.value(kind, 1)} {comparison} ({self._inner((kind,))})")
        forms.append(f"{self.value(kind, 1)} > {self._scalar_subquery(kind)}")
        return str(maker.pick(forms))

    def _scalar_subquery(self, kind: str) -> str:
        """An aggregate without GROUP BY: one row, always."""
        maker = self.maker
        from_, own = maker._from(self._visible, (), 0)
        scope = Scope(maker, own, self._own + self._outer, self._visible, self._depth - 1)
        where = f" WHERE {scope.condition(1)}" if maker.chance(0.8) else ""
        if maker.chance(0.15):
            # Ordered by the value itself, so it does not matter which of equal rows comes first.
            return f"(SELECT {scope.leaf(kind)} AS o FROM {from_}{where} ORDER BY 1{maker._direction()} LIMIT 1)"
        return f"(SELECT {scope.aggregate(kind)} FROM {from_}{where})"

    # ---- groups and windows ------------------------------------------------------------------------------------------

    def aggregate(self, kind: str) -> str:
        """An aggregate call whose result is of a kind."""
        maker = self.maker
        plain = Scope(maker, self._own, (), self._visible, 0)
        if kind == "int":
            pick = maker.pick(
                (
                    "count(*)",
                    f"count({plain.leaf(maker.pick(('int', 'text')))})",
                    f"count(DISTINCT {plain.value('int', 1)})",
                    f"sum({plain.value('int', 1)})",
                    f"min({plain.value('int', 1)})",
                    f"max({plain.value('int', 1)})",
                )
            )
        elif kind == "bool":
            return f"(count(*) > {maker.random.randint(0, 4)})"
        else:
            pick = f"{maker.pick(('min', 'max'))}({plain.value(kind, 1)})"
        if maker.chance(0.1):
            pick = maker.pick(rare.aggregates(plain, kind) or [pick])
            return str(pick)
        if maker.chance(0.15):
            pick += f" FILTER (WHERE {plain.condition(1)})"
        return str(pick)

    def grouped(self, kinds: Sequence[str]) -> tuple[list[str], str]:
        """The items of a grouped block, and its GROUP BY and HAVING."""
        maker = self.maker
        plain = Scope(maker, self._own, (), self._visible, 0)
        keys: list[tuple[str, str]] = []
        items = []
        for kind in kinds:
            if kind != "bool" and maker.chance(0.5):
                key = plain.leaf(kind) if maker.chance(0.7) else plain.value(kind, 1)
                # A constant in GROUP BY would be a position.
                key = key if any(c.text in key for c in self._own) else f"coalesce({key}, {key})"
                keys.append((kind, key))
                items.append(key)
            else:
                items.append(self.aggregate(kind))
        if not keys:
            return items, ""
        having = f" HAVING count(*) > {maker.random.randint(0, 2)}" if maker.chance(0.2) else ""
        listed = ", ".join(dict.fromkeys(key for _, key in keys))
        if maker.dialect.grouping_sets and maker.chance(0.15):
            return self._grouping_sets(kinds, items, [key for _, key in keys], having)
        if maker.dialect.grouping_sets and maker.chance(0.2):
            return items, f" GROUP BY {maker.pick(('ROLLUP', 'CUBE'))} ({listed}){having}"
        return items, f" GROUP BY {listed}{having}"

    def _grouping_sets(
        self, kinds: Sequence[str], items: list[str], keys: list[str], having: str
    ) -> tuple[list[str], str]:
        """Explicit sets, and GROUPING() in the place of a number.

        DuckDB is wrong about GROUPING() in correlated subqueries over no rows, so it stands at the top only.
        """
        maker = self.maker
        keys = list(dict.fromkeys(keys))
        if self._depth > 1:
            for place, kind in enumerate(kinds):
                if kind == "int" and items[place] not in keys and maker.chance(0.6):
                    items[place] = f"GROUPING({', '.join(keys)})"
        sets = [[key for key in keys if maker.chance(0.5)] for _ in range(maker.random.randint(1, 3))]
        listed = ", ".join(f"({', '.join(chosen)})" for chosen in [keys, *sets])
        return items, f" GROUP BY GROUPING SETS ({listed}){having}"

    def total_order(self) -> str | None:
        """ORDER BY list that makes this block's rows distinct; None if none is known."""
        return rare.keyed(self._own)

    def qualify(self) -> str:
        """A QUALIFY clause now and then, where rows have a total order."""
        order = self.total_order()
        if order is None or not self.maker.dialect.distinct_on or not self.maker.chance(0.15):
            return ""
        part = f"PARTITION BY {self.leaf('int')} " if self.maker.chance(0.6) else ""
        return f" QUALIFY row_number() OVER ({part}ORDER BY {order}) <= {self.maker.random.randint(1, 5)}"

    def window(self, kind: str) -> str:
        """A window call where the kind has one whose result does not depend on the order of ties."""
        maker = self.maker
        plain = Scope(maker, self._own, (), self._visible, 0)
        part = f"PARTITION BY {plain.leaf(maker.pick(('int', 'text')))} " if maker.chance(0.6) else ""
        total = self.total_order()
        if kind != "bool" and total and maker.chance(0.4):
            first = f"{plain.value('int', 1)}{maker._direction()}, " if maker.chance(0.5) else ""
            return rare.ordered_window(plain, kind, part, first + total)
        order = f"ORDER BY {plain.value('int', 1)}{maker._direction()}" if maker.chance(0.7) else ""
        frame = ""
        if order and maker.chance(0.4):
            frame = maker.pick(
                (
                    " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                    " RANGE BETWEEN 2 PRECEDING AND 3 FOLLOWING",
                    " GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
                    " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
                )
            )
        if kind == "int":
            calls = [f"count({plain.leaf('text')})", f"sum({plain.leaf('int')})", f"max({plain.leaf('int')})"]
            if order:
                calls += ["rank()", "dense_rank()"]
            call = maker.pick(calls)
            frame = "" if "rank" in call else frame
            return f"{call} OVER ({part}{order}{frame})"
        if kind in ("dec", "text", "date"):
            return f"{maker.pick(('min', 'max'))}({plain.leaf(kind)}) OVER ({part}{order}{frame})"
        return self.value(kind, 1)
