"""Aggregate calls as Spark SQL, with nyala's NULLs and result types; also those with OVER.

A writer receives `Calls`, which makes Spark's calls with the DISTINCT, FILTER or window of nyala's call. So avg(x)
FILTER (WHERE y), which is a quotient here, becomes sum(x) FILTER (WHERE y) / count(x) FILTER (WHERE y).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from sqlglot import exp

from ....model.types import DECIMAL, DOUBLE, DataType, Kind
from ....sql.expressions import Aggregate, Expr, Literal, OrderItem, Window
from . import expressions, numbers
from .tree import Tree, again, call, case, cast, equal, is_not_null, is_null, not_supported, null, number, string

_COUNT_TYPE: Final = DECIMAL(19, 0)
_NOT_OVER: Final = ("string_agg", "mode", "percentile_cont", "percentile_disc")


def write(of: Aggregate) -> Tree:
    """An aggregate call over its source's columns."""
    return _writer(of.function)(Calls(of.args, of.type, of.order, of.distinct, of.filter))


def write_over(of: Window, over: Callable[[Tree], Tree]) -> Tree:
    """An aggregate call with OVER, which `over` adds to a Spark call."""
    if of.function in _NOT_OVER:
        raise not_supported(f"{of.function}() OVER")
    return _writer(of.function)(Calls(of.args, of.type, (), False, of.filter, over))


class Calls:
    """Makes the Spark calls for one nyala call."""

    def __init__(
        self,
        args: Sequence[Expr],
        type_: DataType,
        order: Sequence[OrderItem] = (),
        distinct: bool = False,
        condition: Expr | None = None,
        over: Callable[[Tree], Tree] | None = None,
    ):
        self.args, self.type, self.order, self.distinct = args, type_, order, distinct
        self._condition = condition
        self._over = over

    def arg(self, place: int = 0) -> Tree:
        """An argument; with OVER, for which Spark has no FILTER, NULL in the rows that are not counted."""
        return self._counting(expressions.write(self.args[place]))

    def _counting(self, tree: Tree) -> Tree:
        if self._over is None or self._condition is None:
            return tree
        return case((expressions.write(self._condition), tree))

    def rows(self) -> Tree:
        """count(*)."""
        if self._over is not None and self._condition is not None:
            return self("count", self._counting(number(1)))
        return self("count", exp.Star())

    def __call__(
        self, name: str, *args: Tree, within: exp.Order | None = None, also: Tree | None = None, distinct: bool = True
    ) -> Tree:
        """A call with nyala's DISTINCT, FILTER (to which `also` is added) and OVER."""
        inner: list[Tree] = list(args)
        if self.distinct and distinct:
            inner = [exp.Distinct(expressions=inner)]
        made = call(name, *inner)
        if within is not None:
            made = exp.WithinGroup(this=made, expression=within)
        if self._over is not None:
            return self._over(made)
        tests = [] if self._condition is None else [expressions.write(self._condition)]
        tests += [] if also is None else [also]
        return exp.Filter(this=made, expression=exp.Where(this=exp.and_(*tests))) if tests else made


Writer = Callable[[Calls], Tree]


def _writer(name: str) -> Writer:
    if name not in WRITERS:
        raise not_supported(f"{name}()")
    return WRITERS[name]


def _count(calls: Calls) -> Tree:
    return calls("count", calls.arg()) if calls.args else calls.rows()


def _sum(calls: Calls) -> Tree:
    return cast(calls("sum", _summand(calls)), calls.type)


def _summand(calls: Calls) -> Tree:
    """The argument of a sum: BIGINTs are added as DECIMALs, to avoid overflow."""
    return cast(calls.arg(), DECIMAL(19, 0)) if calls.args[0].type.kind is Kind.BIGINT else calls.arg()


def _avg(calls: Calls) -> Tree:
    type_ = calls.args[0].type
    if type_.is_float:
        return calls("avg", cast(calls.arg(), DOUBLE))
    exact = DECIMAL(38, type_.scale or 0)
    # Over no rows it is NULL / 0, which is NULL.
    return numbers.quotient(calls("sum", _summand(calls)), exact, calls("count", calls.arg()), _COUNT_TYPE, calls.type)


def _plain(name: str) -> Writer:
    """Spark's call of that name, cast to nyala's type."""
    return lambda calls: cast(calls(name, *(calls.arg(place) for place in range(len(calls.args)))), calls.type)


def _same_type(name: str) -> Writer:
    return lambda calls: calls(name, *(calls.arg(place) for place in range(len(calls.args))))


def _extreme_by(name: str) -> Writer:
    """min_by and max_by. Rows without a value are ignored; Spark itself ignores those without a key."""

    def write(calls: Calls) -> Tree:
        value, key = calls.arg(0), calls.arg(1)
        return calls(name, value, case((is_not_null(again(value)), key)))

    return write


# ---- in order --------------------------------------------------------------------------------------------------------


def _any_value(calls: Calls) -> Tree:
    if not calls.order:
        return calls("any_value", calls.arg(), exp.true(), distinct=False)
    ways = {item.descending for item in calls.order}
    if len(ways) > 1:
        raise not_supported("any_value() in the order of keys that ascend and keys that descend")
    fields: list[Tree] = []
    for item in calls.order:
        key = expressions.write(item.expr)
        last = is_null(key) if item.nulls_first == item.descending else is_not_null(key)
        fields += [last, again(key)]
    value = calls.arg()
    key = case((is_not_null(again(value)), call("struct", *fields)))
    return calls("max_by" if ways == {True} else "min_by", value, key, distinct=False)


def _within(calls: Calls) -> exp.Order | None:
    keys = [
        exp.Ordered(this=expressions.write(item.expr), desc=item.descending, nulls_first=item.nulls_first)
        for item in calls.order
        if not isinstance(item.expr, Literal)
    ]
    return exp.Order(expressions=keys) if keys else None


def _string_agg(calls: Calls) -> Tree:
    if not isinstance(calls.args[1], Literal):
        raise not_supported("string_agg() with a separator that is not constant")
    if calls.args[1].value is None:
        return calls("listagg", calls.arg(), within=_within(calls))
    return calls("listagg", calls.arg(), expressions.write(calls.args[1]), within=_within(calls))


def _mode(calls: Calls) -> Tree:
    return calls("mode", within=_within(calls))


def _fraction(calls: Calls) -> Tree:
    if not isinstance(calls.args[0], Literal) or calls.args[0].value is None:
        raise not_supported("a percentile whose fraction is not constant")
    return expressions.write(calls.args[0])


def _percentile_cont(calls: Calls) -> Tree:
    fraction, item = _fraction(calls), calls.order[0]
    value = cast(expressions.write(item.expr), DOUBLE)
    if not item.descending:
        return calls("percentile", value, fraction)
    if calls.distinct:
        raise not_supported("percentile_cont() of distinct values in descending order")
    order = exp.Order(expressions=[exp.Ordered(this=value, desc=True, nulls_first=item.nulls_first)])
    return calls("percentile_cont", fraction, within=order)


def _percentile_disc(calls: Calls) -> Tree:
    """percentile_disc as an element of all values in order: Spark's own returns DOUBLEs."""
    fraction, item = _fraction(calls), calls.order[0]
    value = expressions.write(item.expr)
    values = call("sort_array", calls("collect_list", value), exp.false() if item.descending else exp.true())
    place = call("greatest", number(1), cast(call("ceil", exp.Mul(this=fraction, expression=calls("count", again(
        value)))), "INT"))  # fmt: skip
    return call("try_element_at", values, place)


def _product(calls: Calls) -> Tree:
    one = cast(string("1"), DOUBLE)
    multiplied = exp.Lambda(
        this=exp.Mul(this=exp.column("a"), expression=exp.column("b")),
        expressions=[exp.to_identifier("a"), exp.to_identifier("b")],
    )
    found = call("aggregate", calls("collect_list", calls.arg()), one, multiplied)
    return case((equal(calls("count", calls.arg()), number(0)), null(DOUBLE)), default=found)


WRITERS: Mapping[str, Writer] = {
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "min": _same_type("min"),
    "max": _same_type("max"),
    "min_by": _extreme_by("min_by"),
    "max_by": _extreme_by("max_by"),
    "any_value": _any_value,
    "bool_and": _same_type("bool_and"),
    "bool_or": _same_type("bool_or"),
    "bit_and": _plain("bit_and"),
    "bit_or": _plain("bit_or"),
    "bit_xor": _plain("bit_xor"),
    "string_agg": _string_agg,
    "mode": _mode,
    "percentile_cont": _percentile_cont,
    "percentile_disc": _percentile_disc,
    "product": _product,
    "approx_count_distinct": _plain("approx_count_distinct"),
    **{
        name: _same_type(name)
        for name in ("var_samp", "var_pop", "stddev_samp", "stddev_pop", "covar_samp", "covar_pop", "corr")
    },
    **{
        name: _plain(name)
        for name in ("regr_count", "regr_avgx", "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy", "regr_slope",
                     "regr_intercept", "regr_r2")
    },
}  # fmt: skip
