"""Aggregate functions, over the rows of a group.

Rows in which an argument is NULL are ignored, except by `count(*)`. Clauses of a call besides its arguments (DISTINCT,
FILTER, ORDER BY, WITHIN GROUP) are bound in `binding.expressions.aggregates`. For ordered-set functions, the last
argument here is the key of their WITHIN GROUP.
"""

from __future__ import annotations

from ...errors import NumericOutOfRange, TypeMismatch
from ...model.types import BIGINT, BOOLEAN, DECIMAL, DOUBLE, INT, STRING, DataType, Kind
from ..arithmetic import MIN_DIVISION_SCALE
from ..coercion import cast, convert, is_text_literal
from ..expressions import Aggregate, Call, Expr, Literal, OrderItem
from .arguments import number, refuse, truth
from .arrays import array_of
from .function import Args, Builder, Function

# ---- counts, sums, extremes ------------------------------------------------------------------------------------------


def _count_of(function: Function, args: Args) -> Expr:
    return Aggregate(BIGINT, False, "count", args)


def _count_if(function: Function, args: Args) -> Expr:
    return Aggregate(BIGINT, False, "count", (), filter=truth(function, args[0]))


def _sum(function: Function, args: Args) -> Expr:
    arg = _summand(function, args[0])
    return Aggregate(sum_type(arg.type), True, "sum", (arg,))


def sum_type(type_: DataType) -> DataType:
    """BIGINT for TINYINT to INT, DECIMAL(38,0) for BIGINT, DECIMAL(38,s) for DECIMAL(p,s), DOUBLE for floats."""
    if type_.is_float:
        return DOUBLE
    if type_.is_decimal:
        return DECIMAL(38, type_.scale or 0)
    return DECIMAL(38, 0) if type_.kind is Kind.BIGINT else BIGINT


def _avg(function: Function, args: Args) -> Expr:
    """Exact for integers and DECIMALs: DECIMAL(38, max(16, scale)), rounded half away from zero."""
    arg = _summand(function, args[0])
    exact = DECIMAL(38, max(MIN_DIVISION_SCALE, arg.type.scale or 0))
    return Aggregate(DOUBLE if arg.type.is_float else exact, True, "avg", (arg,))


def _summand(function: Function, arg: Expr) -> Expr:
    if not arg.type.is_numeric:
        raise refuse(function, arg)
    return arg


def _minmax(function: Function, args: Args) -> Expr:
    """The extreme of any ordered type; FALSE is less than TRUE, so the minimum of BOOLEANs is true if all are true."""
    if args[0].type == BOOLEAN:
        return Aggregate(BOOLEAN, True, {"min": "bool_and", "max": "bool_or"}[function.name], args)
    return Aggregate(args[0].type, True, function.name, (_ordered(function, args[0], 0),))


def _ordered(function: Function, arg: Expr, position: int) -> Expr:
    if arg.type.kind in (Kind.BOOLEAN, Kind.NULL):
        raise refuse(function, arg, position)
    return arg


def _extreme_by(function: Function, args: Args) -> Expr:
    value, key = _any(function, args[0]), args[1]
    key = cast(key, INT) if key.type == BOOLEAN else _ordered(function, key, 1)
    return Aggregate(value.type, True, function.name, (value, key))


def _any_value(function: Function, args: Args) -> Expr:
    value = _any(function, args[0])
    return Aggregate(value.type, True, function.name, (value,))


def _any(function: Function, arg: Expr) -> Expr:
    if arg.type.kind is Kind.NULL:
        raise refuse(function, arg)
    return arg


# ---- truths, bits, products ------------------------------------------------------------------------------------------


def _truths(function: Function, args: Args) -> Expr:
    return Aggregate(BOOLEAN, True, function.name, (truth(function, args[0]),))


def _bits(function: Function, args: Args) -> Expr:
    if not args[0].type.is_integer:
        raise refuse(function, args[0])
    return Aggregate(args[0].type, True, function.name, args)


# ---- statistics ------------------------------------------------------------------------------------------------------


def _statistic(canonical: str) -> Builder:
    """A statistic of numbers, computed as DOUBLEs."""

    def build(function: Function, args: Args) -> Expr:
        doubles = tuple(cast(number(function, arg, position), DOUBLE) for position, arg in enumerate(args))
        return Aggregate(DOUBLE, True, canonical, doubles)

    return build


def _regr_count(function: Function, args: Args) -> Expr:
    doubles = tuple(cast(number(function, arg, position), DOUBLE) for position, arg in enumerate(args))
    return Aggregate(BIGINT, False, function.name, doubles)


def _sketch(function: Function, args: Args) -> Expr:
    if args[0].type.kind is Kind.INTERVAL:
        raise refuse(function, args[0])
    return Aggregate(BIGINT, False, function.name, (_any(function, args[0]),))


# ---- texts and ordered sets ------------------------------------------------------------------------------------------


def _string_agg(function: Function, args: Args) -> Expr:
    value, separator = args
    if not value.type.is_text:
        raise TypeMismatch(f"{function.name} joins texts, not values of type {value.type}; cast them to STRING")
    if separator.type.kind is not value.type.kind:
        if separator.type.kind is not Kind.NULL and not is_text_literal(separator):
            raise refuse(function, separator, 1)
        separator = convert(separator, value.type)
    return Aggregate(value.type, True, function.name, (value, separator))


def _array_agg(function: Function, args: Args) -> Expr:
    """The elements joined; `binding.expressions.aggregates` puts them in braces."""
    value = convert(args[0], STRING) if args[0].type.kind is Kind.NULL else args[0]
    element = Call(STRING, False, "array_quote", (cast(value, STRING),))
    return Aggregate(array_of(value.type), True, "string_agg", (element, Literal(STRING, False, ",")))


def _percentile(canonical: str, value_first: bool = False) -> Builder:
    def build(function: Function, args: Args) -> Expr:
        value, fraction = args if value_first else args[::-1]
        return _percentile_of(function, canonical, fraction, value)

    return build


def _percentile_of(function: Function, canonical: str, fraction: Expr, value: Expr) -> Expr:
    fraction = cast(number(function, fraction), DOUBLE)
    if isinstance(fraction, Literal) and fraction.value is not None and not 0 <= fraction.value <= 1:
        raise NumericOutOfRange(f"the fraction of {function.name} must be from 0 to 1, and is {fraction.value:g}")
    if canonical == "percentile_cont" and not value.type.is_numeric:
        raise TypeMismatch(
            f"{function.name} is between two numbers, not between values of type {value.type}; "
            "percentile_disc takes any"
        )
    value = value if value.type.is_numeric else _ordered(function, value, 1)
    result = DOUBLE if canonical == "percentile_cont" else value.type
    return Aggregate(result, True, canonical, (fraction,), order=(OrderItem(value),))


def _median(function: Function, args: Args) -> Expr:
    return _percentile_of(function, "percentile_cont", Literal(DOUBLE, False, 0.5), args[0])


def _mode(function: Function, args: Args) -> Expr:
    value = _any(function, args[0])
    return Aggregate(value.type, True, "mode", (), order=(OrderItem(value),))


AGGREGATE = (
    Function(
        "count", "count(*) or count([DISTINCT] value)", 1, 1, _count_of, kind="aggregate",
        zero_over_nothing=True,
        description="The number of rows, or of values that are not NULL",
        example="SELECT count(x) FROM (VALUES (1), (2), (NULL)) AS t (x)", result="2",
    ),
    Function(
        "count_if", "count_if(condition)", 1, 1, _count_if, kind="aggregate",
        description="The number of rows for which the condition is true",
        example="SELECT count_if(x > 1) FROM (VALUES (1), (2), (4), (NULL)) AS t (x)", result="2",
        calls=("count",),
    ),
    Function(
        "approx_count_distinct", "approx_count_distinct(value)", 1, 1, _sketch, kind="aggregate",
        zero_over_nothing=True, ignores_duplicates=True,
        description="The approximate number of distinct values, mostly within 2 %, in constant memory",
        example="SELECT approx_count_distinct(x % 2) FROM (VALUES (1), (2), (4), (NULL)) AS t (x)", result="2",
    ),
    Function(
        "sum", "sum([DISTINCT] number)", 1, 1, _sum, kind="aggregate",
        always_defined=True, merges=True,
        description="The sum of the values, exact for all types but FLOAT and DOUBLE; NULL if there are none",
        example="SELECT sum(x) FROM (VALUES (1.50), (2.25), (NULL)) AS t (x)", result="3.75",
    ),
    Function(
        "avg", "avg([DISTINCT] number)", 1, 1, _avg, kind="aggregate",
        always_defined=True,
        description="The mean of the values; for exact numbers, with at least 16 digits after the point",
        example="SELECT avg(x) FROM (VALUES (1), (2), (NULL)) AS t (x)", result="1.5000000000000000",
    ),
    Function(
        "product", "product([DISTINCT] number)", 1, 1, _statistic("product"), kind="aggregate",
        always_defined=True,
        description="The product of the values, as a DOUBLE",
        example="SELECT product(x) FROM (VALUES (1), (2), (4), (NULL)) AS t (x)", result="8",
    ),
    Function(
        "min", "min(value)", 1, 1, _minmax, kind="aggregate",
        always_defined=True, ignores_duplicates=True, merges=True,
        description="The smallest value; FALSE is less than TRUE",
        example="SELECT min(x) FROM (VALUES ('b'), ('a'), (NULL)) AS t (x)", result="a",
    ),
    Function(
        "max", "max(value)", 1, 1, _minmax, kind="aggregate",
        always_defined=True, ignores_duplicates=True, merges=True,
        description="The largest value; of BOOLEANs, true if any is true",
        example="SELECT max(x) FROM (VALUES (1), (3), (NULL)) AS t (x)", result="3",
    ),
    Function(
        "min_by", "min_by(value, key)", 2, 2, _extreme_by, kind="aggregate",
        always_defined=True, ignores_duplicates=True,
        description="The value in the row with the smallest key; rows in which either is NULL do not count",
        example="SELECT min_by(y, x) FROM (VALUES (1, 2), (2, 4), (3, 9)) AS t (x, y)", result="2",
        aliases=("arg_min",),
    ),
    Function(
        "max_by", "max_by(value, key)", 2, 2, _extreme_by, kind="aggregate",
        always_defined=True, ignores_duplicates=True,
        description="The value in the row with the largest key; rows in which either is NULL do not count",
        example="SELECT max_by(y, x) FROM (VALUES (1, 2), (2, 4), (3, 9)) AS t (x, y)", result="9",
        aliases=("arg_max",),
    ),
    Function(
        "any_value", "any_value(value [ORDER BY key])", 1, 1, _any_value, kind="aggregate",
        always_defined=True, order_sensitive=True, ignores_duplicates=True, merges=True,
        description="An arbitrary value that is not NULL; with ORDER BY, the first",
        example="SELECT any_value(x ORDER BY x DESC) FROM (VALUES (1), (2), (4), (NULL)) AS t (x)", result="4",
    ),
    Function(
        "bool_and", "bool_and(condition)", 1, 1, _truths, kind="aggregate",
        always_defined=True, ignores_duplicates=True, merges=True,
        description="True if all values are true",
        example="SELECT bool_and(x > 1) FROM (VALUES (1), (2), (4), (NULL)) AS t (x)", result="false",
        aliases=("every",),
    ),
    Function(
        "bool_or", "bool_or(condition)", 1, 1, _truths, kind="aggregate",
        always_defined=True, ignores_duplicates=True, merges=True,
        description="True if any value is true",
        example="SELECT bool_or(x > 1) FROM (VALUES (1), (2), (4), (NULL)) AS t (x)", result="true",
    ),
    Function(
        "bit_and", "bit_and(integer)", 1, 1, _bits, kind="aggregate",
        always_defined=True, ignores_duplicates=True, merges=True,
        description="The bitwise AND of the values",
        example="SELECT bit_and(x) FROM (VALUES (1), (2), (4), (NULL)) AS t (x)", result="0",
    ),
    Function(
        "bit_or", "bit_or(integer)", 1, 1, _bits, kind="aggregate",
        always_defined=True, ignores_duplicates=True, merges=True,
        description="The bitwise OR of the values",
        example="SELECT bit_or(x) FROM (VALUES (1), (2), (4), (NULL)) AS t (x)", result="7",
    ),
    Function(
        "bit_xor", "bit_xor([DISTINCT] integer)", 1, 1, _bits, kind="aggregate",
        always_defined=True, merges=True,
        description="The bitwise exclusive OR of the values",
        example="SELECT bit_xor(x) FROM (VALUES (1), (2), (4), (NULL)) AS t (x)", result="7",
    ),
    Function(
        "string_agg", "string_agg([DISTINCT] text, separator [ORDER BY key])", 2, 2, _string_agg, kind="aggregate",
        always_defined=True, order_sensitive=True,
        description="The texts joined, with the separator between them",
        example="SELECT string_agg(x, ', ' ORDER BY x DESC) FROM (VALUES ('b'), ('a'), (NULL)) AS t (x)",
        result="b, a",
        aliases=("group_concat", "listagg"),
    ),
    Function(
        "array_agg", "array_agg([DISTINCT] value [ORDER BY key])", 1, 1, _array_agg, kind="aggregate",
        calls=("string_agg",),
        description="The values as an array, which is a text such as {a,b}",
        example="SELECT array_agg(x ORDER BY x DESC) FROM (VALUES ('b'), ('a'), (NULL)) AS t (x)",
        result="{NULL,b,a}",
    ),
    Function(
        "var_samp", "var_samp([DISTINCT] number)", 1, 1, _statistic("var_samp"), kind="aggregate",
        description="The variance of a sample, divided by n - 1, as a DOUBLE; NULL for fewer than two values",
        example="SELECT var_samp(x) FROM (VALUES (1), (3), (5), (NULL)) AS t (x)", result="4",
        aliases=("variance",),
    ),
    Function(
        "var_pop", "var_pop([DISTINCT] number)", 1, 1, _statistic("var_pop"), kind="aggregate",
        always_defined=True,
        description="The variance of a whole population, divided by n, as a DOUBLE",
        example="SELECT var_pop(x) FROM (VALUES (1), (5), (NULL)) AS t (x)", result="4",
    ),
    Function(
        "stddev_samp", "stddev_samp([DISTINCT] number)", 1, 1, _statistic("stddev_samp"), kind="aggregate",
        description="The standard deviation of a sample, as a DOUBLE, also for exact numbers",
        example="SELECT stddev_samp(x) FROM (VALUES (1), (3), (5), (NULL)) AS t (x)", result="2",
        aliases=("stddev",),
    ),
    Function(
        "stddev_pop", "stddev_pop([DISTINCT] number)", 1, 1, _statistic("stddev_pop"), kind="aggregate",
        always_defined=True,
        description="The standard deviation of a whole population, as a DOUBLE",
        example="SELECT stddev_pop(x) FROM (VALUES (1), (5), (NULL)) AS t (x)", result="2",
    ),
    Function(
        "covar_samp", "covar_samp(y, x)", 2, 2, _statistic("covar_samp"), kind="aggregate",
        description="The covariance of a sample",
        example="SELECT covar_samp(y, x) FROM (VALUES (1, 2), (2, 4), (3, 9)) AS t (x, y)", result="3.5",
    ),
    Function(
        "covar_pop", "covar_pop(y, x)", 2, 2, _statistic("covar_pop"), kind="aggregate",
        always_defined=True,
        description="The covariance of a whole population",
        example="SELECT covar_pop(y, x) FROM (VALUES (1, 2), (2, 4), (3, 9)) AS t (x, y)", result="2.3333333333333335",
    ),
    Function(
        "corr", "corr(y, x)", 2, 2, _statistic("corr"), kind="aggregate",
        description="Pearson's correlation coefficient, from -1 to 1",
        example="SELECT round(corr(y, x)::DECIMAL(9,4), 2) FROM (VALUES (1, 2), (2, 4), (3, 9)) AS t (x, y)",
        result="0.97",
    ),
    Function(
        "regr_slope", "regr_slope(y, x)", 2, 2, _statistic("regr_slope"), kind="aggregate",
        description="The slope of the least-squares line through the points (x, y)",
        example="SELECT regr_slope(y, x) FROM (VALUES (1, 2), (2, 4), (3, 9)) AS t (x, y)", result="3.5",
    ),
    Function(
        "regr_intercept", "regr_intercept(y, x)", 2, 2, _statistic("regr_intercept"), kind="aggregate",
        description="The y-intercept of the least-squares line through the points (x, y)",
        example="SELECT regr_intercept(y, x) FROM (VALUES (1, 2), (2, 4), (3, 9)) AS t (x, y)", result="-2",
    ),
    Function(
        "regr_r2", "regr_r2(y, x)", 2, 2, _statistic("regr_r2"), kind="aggregate",
        description="The square of the correlation coefficient: 1 if the line fits perfectly",
        example="SELECT round(regr_r2(y, x)::DECIMAL(9,4), 2) FROM (VALUES (1, 2), (2, 4), (3, 9)) AS t (x, y)",
        result="0.94",
    ),
    Function(
        "regr_avgx", "regr_avgx(y, x)", 2, 2, _statistic("regr_avgx"), kind="aggregate",
        always_defined=True,
        description="The mean of x, over the rows in which neither is NULL",
        example="SELECT regr_avgx(y, x) FROM (VALUES (1, 2), (2, 4), (3, 9)) AS t (x, y)", result="2",
    ),
    Function(
        "regr_avgy", "regr_avgy(y, x)", 2, 2, _statistic("regr_avgy"), kind="aggregate",
        always_defined=True,
        description="The mean of y, over the rows in which neither is NULL",
        example="SELECT regr_avgy(y, x) FROM (VALUES (1, 2), (2, 4), (3, 9)) AS t (x, y)", result="5",
    ),
    Function(
        "regr_sxx", "regr_sxx(y, x)", 2, 2, _statistic("regr_sxx"), kind="aggregate",
        always_defined=True,
        description="The sum of the squared distances of x from its mean",
        example="SELECT regr_sxx(y, x) FROM (VALUES (1, 2), (2, 4), (3, 9)) AS t (x, y)", result="2",
    ),
    Function(
        "regr_syy", "regr_syy(y, x)", 2, 2, _statistic("regr_syy"), kind="aggregate",
        always_defined=True,
        description="The sum of the squared distances of y from its mean",
        example="SELECT regr_syy(y, x) FROM (VALUES (1, 2), (2, 4), (3, 9)) AS t (x, y)", result="26",
    ),
    Function(
        "regr_sxy", "regr_sxy(y, x)", 2, 2, _statistic("regr_sxy"), kind="aggregate",
        always_defined=True,
        description="The sum of the products of the distances of x and y from their means",
        example="SELECT regr_sxy(y, x) FROM (VALUES (1, 2), (2, 4), (3, 9)) AS t (x, y)", result="7",
    ),
    Function(
        "regr_count", "regr_count(y, x)", 2, 2, _regr_count, kind="aggregate",
        zero_over_nothing=True,
        description="The number of rows in which neither is NULL",
        example="SELECT regr_count(y, x) FROM (VALUES (1, 2), (2, 4), (3, 9)) AS t (x, y)", result="3",
    ),
    Function(
        "percentile_cont", "percentile_cont(fraction) WITHIN GROUP (ORDER BY number)",
        2, 2, _percentile("percentile_cont"), kind="aggregate",
        always_defined=True, within_group=1,
        description="The number at a fraction of the sorted values, interpolated between the two nearest",
        example="SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY x) FROM (VALUES (1), (2), (4), (NULL)) AS t (x)",
        result="1.5",
    ),
    Function(
        "percentile_disc", "percentile_disc(fraction) WITHIN GROUP (ORDER BY value)",
        2, 2, _percentile("percentile_disc"), kind="aggregate",
        always_defined=True, within_group=1,
        description="The first of the sorted values up to which at least the fraction of all values lies",
        example="SELECT percentile_disc(0.25) WITHIN GROUP (ORDER BY x) FROM (VALUES (1), (2), (4), (NULL)) AS t (x)",
        result="1",
    ),
    Function(
        "quantile_cont", "quantile_cont(number, fraction)", 2, 2, _percentile("percentile_cont", value_first=True),
        kind="aggregate",
        description="The same as percentile_cont, with a shorter syntax",
        example="SELECT quantile_cont(x, 0.25) FROM (VALUES (1), (2), (4), (NULL)) AS t (x)", result="1.5",
        calls=("percentile_cont",),
    ),
    Function(
        "quantile_disc", "quantile_disc(value, fraction)", 2, 2, _percentile("percentile_disc", value_first=True),
        kind="aggregate",
        description="The same as percentile_disc, with a shorter syntax",
        example="SELECT quantile_disc(x, 0.25) FROM (VALUES (1), (2), (4), (NULL)) AS t (x)", result="1",
        calls=("percentile_disc",),
    ),
    Function(
        "median", "median([DISTINCT] number)", 1, 1, _median, kind="aggregate",
        description="The middle one of the sorted values, or the mean of the two in the middle",
        example="SELECT median(x) FROM (VALUES (1), (2), (4), (NULL)) AS t (x)", result="2",
        calls=("percentile_cont",),
    ),
    Function(
        "mode", "mode() WITHIN GROUP (ORDER BY value) or mode(value)", 1, 1, _mode, kind="aggregate",
        always_defined=True, within_group=0,
        description="The most frequent value; of several, the first in order",
        example="SELECT mode() WITHIN GROUP (ORDER BY x) FROM (VALUES (2), (1), (2), (NULL)) AS t (x)", result="2",
    ),
)  # fmt: skip
