"""Values that need no thought: a parameter's Python value taken as it is, by a test of its class and its size.

    7       for a BIGINT          7               the cell of a single row, and the physical value
    Decimal("1.5") for DECIMAL(9,2)     Decimal("1.5")  the cell; 150 the physical value
    "7"     for a BIGINT          Unfit: literals and their conversions know what to do

Where a value is fit, every conversion that it would go through on its way to the type gives the value itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

from ...executor.statements.single_rows import SingleRow
from ...model.types import EPOCH_DATE, INTEGER_WIDTHS, DataType, Kind
from ...sql.coercion import Assigned, fit
from ...sql.deferred_parameters import Decision, DeferredParameter, DeferredValues, Key
from ...sql.expressions import Literal, Parameter
from ...sql.literals import from_python
from .bind_values import Normalized

Taker: TypeAlias = Callable[[Normalized], Any]
"""Takes one value from the parameters; raises `Unfit`."""


class Unfit(Exception):
    """Raised for a value that is not plain for a `Taker`."""


# ---- cells of single rows --------------------------------------------------------------------------------------------


def cell_takers(single: SingleRow, values: DeferredValues, keys: Sequence[Key]) -> tuple[Taker, ...] | None:
    """Converters of the Python values of a single row; None if some values need the general conversion."""
    if {value.key for value in single.values if isinstance(value, DeferredParameter)} != set(keys):
        return None  # NULL has its place without being in a cell
    takers = []
    for value in single.values:
        if isinstance(value, Literal):
            takers.append(_constant(value.type.to_python(value.value)))
            continue
        make = _CELLS.get(value.type.kind)
        if make is None or value.key not in values.settled or value.key in values.refusing:
            return None
        takers.append(make(value.key, value.type))
    return tuple(takers)


def _constant(value: Any) -> Taker:
    return lambda parameters: value


def _integers(key: Any, type_: DataType) -> Taker:
    half = 1 << (8 * INTEGER_WIDTHS[type_.kind] - 1)
    low, high = -half, half - 1

    def take(parameters: Any) -> Any:
        value = parameters[key]
        if type(value) is int and low <= value <= high:
            return value
        raise Unfit

    return take


def _texts(key: Any, type_: DataType) -> Taker:
    longest = 1 << 62 if type_.length is None else type_.length

    def take(parameters: Any) -> Any:
        value = parameters[key]
        if type(value) is str and len(value) <= longest:
            return value
        raise Unfit

    return take


def _decimals(key: Any, type_: DataType) -> Taker:
    assert type_.precision is not None and type_.scale is not None
    finest, limit = -type_.scale, 10 ** (type_.precision - type_.scale)

    def take(parameters: Any) -> Any:
        value = parameters[key]
        if type(value) is Decimal and value.is_finite() and -limit < value < limit:
            exponent = value.as_tuple().exponent
            if finest <= exponent <= 0:  # type: ignore[operator]
                return value
        elif type(value) is int and -limit < value < limit:
            return Decimal(value)
        raise Unfit

    return take


def _timestamps(key: Any, type_: DataType) -> Taker:
    def take(parameters: Any) -> Any:
        value = parameters[key]
        if type(value) is datetime and value.tzinfo is None and not value.fold:
            return value
        raise Unfit

    return take


def _plain(kind: type) -> Callable[[Any, DataType], Taker]:
    def make(key: Any, type_: DataType) -> Taker:
        def take(parameters: Any) -> Any:
            value = parameters[key]
            if type(value) is kind:
                return value
            raise Unfit

        return take

    return make


_CELLS: dict[Kind, Callable[[Any, DataType], Taker]] = {
    **dict.fromkeys(INTEGER_WIDTHS, _integers),
    Kind.STRING: _texts,
    Kind.DECIMAL: _decimals,
    Kind.DATE: _plain(date),
    Kind.TIMESTAMP: _timestamps,
    Kind.DOUBLE: _plain(float),
    Kind.BOOLEAN: _plain(bool),
    Kind.BINARY: _plain(bytes),
}
"""Values that go into a column as they are. Others are brought to its type as literals are."""


# ---- values of plans -----------------------------------------------------------------------------------------------


def value_takers(
    parameters: Sequence[Parameter], values: DeferredValues, keys: Sequence[Key]
) -> tuple[Taker, ...] | None:
    """Converters to the physical values of a plan's parameters; None if some need the general conversion.

    A parameter is simple if its context defines its type, for any value, or if its value is used unchanged.
    """
    if {getattr(parameter, "key", None) for parameter in parameters} != set(keys):
        return None
    by_key: dict[Key, list[Decision]] = {}
    for decision in values.decisions:
        by_key.setdefault(decision.key, []).append(decision)
    takers = []
    for parameter in parameters:
        assert isinstance(parameter, DeferredParameter)
        decisions = by_key.get(parameter.key, ())
        if not decisions and not parameter.path and parameter.key not in values.settled:
            make = _OWN.get(parameter.type.kind)
        elif parameter.key in values.settled and all(
            decision.outcome == decision.step.type == parameter.type
            and (decision.step.convert is fit or isinstance(decision.step.convert, Assigned))
            for decision in decisions
        ):
            make = _PHYSICAL.get(parameter.type.kind)
        else:
            return None
        if make is None or parameter.sample.value is None:
            return None
        takers.append(make(parameter.key, parameter.type))
    return tuple(takers)


def _unscaled(key: Any, type_: DataType) -> Taker:
    assert type_.precision is not None and type_.scale is not None
    unit, limit, exact = 10**type_.scale, 10 ** (type_.precision - type_.scale), _decimals(key, type_)

    def take(parameters: Any) -> Any:
        value = parameters[key]
        if type(value) is int:
            if -limit < value < limit:
                return value * unit
            raise Unfit
        return type_.to_physical(exact(parameters))

    return take


def _days(key: Any, type_: DataType) -> Taker:
    first = EPOCH_DATE.toordinal()

    def take(parameters: Any) -> Any:
        value = parameters[key]
        if type(value) is date:
            return value.toordinal() - first
        raise Unfit

    return take


def _moments(key: Any, type_: DataType) -> Taker:
    def take(parameters: Any) -> Any:
        value = parameters[key]
        if type(value) is datetime:
            return type_.to_physical(value)
        raise Unfit

    return take


def _own(key: Any, type_: DataType) -> Taker:
    """A value of which a literal of exactly this type would be made."""

    def take(parameters: Any) -> Any:
        literal = from_python(parameters[key])
        if literal.type == type_ and literal.value is not None:
            return literal.value
        raise Unfit

    return take


_PHYSICAL = {**_CELLS, Kind.DECIMAL: _unscaled, Kind.DATE: _days, Kind.TIMESTAMP: _moments}
_OWN: dict[Kind, Callable[[Any, DataType], Taker]] = {
    **dict.fromkeys((Kind.INT, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE, Kind.BOOLEAN, Kind.TIMESTAMP, Kind.DATE), _own),
    Kind.STRING: _plain(str),
    Kind.BINARY: _plain(bytes),
}
