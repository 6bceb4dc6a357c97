"""Putting values into a plan: the last step before it runs, cheap enough to be done at every execution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from ..errors import InterfaceError
from ..sql.expressions import Expr, Literal, OrderItem, Parameter, conjuncts
from ..storage.types import Kind
from .fold import fold
from .physical import PhysicalNode, TableScan
from .plan import Plan
from .regions import merge
from .scan_predicates import extract
from .trees import all_of, each, rewrite


def bind_parameters(plan: Plan, values: Sequence[Any] | Mapping[str, Any]) -> Plan:
    """The plan with a literal for every parameter; conditions on them move down into the scans.

    Parameters
    ----------
    plan : Plan
        As `plan_query` made it; one without parameters comes back as it is.
    values : sequence or mapping
        Python values by position, or by name for `:name`; converted to each parameter's type.

    Raises `InterfaceError` where a value is missing, `InvalidText` or `NumericOutOfRange` where one does not fit.
    """
    binder = _Binder(values)
    root = binder.node(plan.root)
    return plan if root is plan.root else replace(plan, root=root)


class _Binder:
    def __init__(self, values: Sequence[Any] | Mapping[str, Any]):
        self._values = values
        self._done: dict[int, PhysicalNode] = {}

    def node(self, node: PhysicalNode) -> PhysicalNode:
        """The bound node; a subplan that stands in the plan twice is still one object afterwards."""
        if id(node) not in self._done:
            changes: dict[str, Any] = {}
            for spec in fields(node):
                before = getattr(node, spec.name)
                after = self._value(before)
                if after is not before:
                    changes[spec.name] = after
            bound = replace(node, **changes) if changes else node
            self._done[id(node)] = _pushed(bound) if changes and isinstance(bound, TableScan) else bound
        return self._done[id(node)]

    def _value(self, value: Any) -> Any:
        if isinstance(value, Expr):
            return self._expression(value)
        if isinstance(value, PhysicalNode):
            return self.node(value)
        if isinstance(value, OrderItem):
            expr = self._expression(value.expr)
            return value if expr is value.expr else replace(value, expr=expr)
        if isinstance(value, tuple):
            items = [self._value(item) for item in value]
            if any(a is not b for a, b in zip(items, value, strict=True)):
                return tuple(items)
        return value

    def _expression(self, expr: Expr) -> Expr:
        if not any(isinstance(part, Parameter) for part in each(expr)):
            return expr
        return fold(rewrite(expr, lambda part: self._literal(part) if isinstance(part, Parameter) else part))

    def _literal(self, parameter: Parameter) -> Literal:
        value = self._look_up(parameter)
        type_ = parameter.type
        physical = value if type_.kind is Kind.NULL else type_.to_physical(value)
        return Literal(type_, physical is None, physical)

    def _look_up(self, parameter: Parameter) -> Any:
        if isinstance(self._values, Mapping):
            if parameter.name is None:
                raise InterfaceError("the statement's parameters have positions, not names; pass a sequence of values")
            if parameter.name not in self._values:
                known = ", ".join(sorted(self._values)) or "none"
                raise InterfaceError(
                    f"there is no value for parameter :{parameter.name}; values were given for {known}"
                )
            return self._values[parameter.name]
        if parameter.index >= len(self._values):
            raise InterfaceError(
                f"there is no value for parameter {parameter.index + 1}; the statement was given {len(self._values)}"
            )
        return self._values[parameter.index]


def _pushed(scan: TableScan) -> TableScan:
    """The scan with those residual conditions that are now comparisons with literals as predicates."""
    names = {column.id: name for column, name in zip(scan.fetched, scan.names, strict=True)}
    parts = extract(conjuncts(scan.residual), names)
    return replace(scan, predicates=merge((*scan.predicates, *parts.predicates)), residual=all_of(parts.residual))
