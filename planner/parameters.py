"""Putting values into a plan: the last step before it runs, cheap enough to be done at every execution.

A `PlanTemplate` finds out once where the parameters stand. Binding then makes anew only those nodes, and the nodes
above them:

    HashAggregate            anew: its input is
      HashJoin               anew: its input is
        Scan lineitem        anew: l_shipdate < ? becomes a predicate of the scan
        Scan orders          as it is
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

from ..errors import InterfaceError
from ..sql.expressions import Expr, Literal, OrderItem, Parameter, conjuncts
from ..storage.types import Kind
from .fold import fold
from .physical import PhysicalNode, TableScan
from .plan import Plan
from .regions import merge
from .scan_predicates import extract
from .trees import all_of, each, rewrite

LookUp: TypeAlias = Callable[[Parameter], Literal]
"""Gives a parameter's value."""


@dataclass(slots=True)
class _Binding:
    """One binding: the values, and the nodes that were made already; a subplan that stands in the plan twice is still
    one object afterwards."""

    look_up: LookUp
    done: dict[int, PhysicalNode] = field(default_factory=dict)


_Maker: TypeAlias = Callable[[_Binding], Any]


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
    return PlanTemplate(plan).bind(lambda parameter: _literal(parameter, values))


class PlanTemplate:
    """A plan into which values are put again and again. Threads may share it."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self._makers: dict[int, _Maker | None] = {}
        self._root = self._node(plan.root)

    def bind(self, look_up: LookUp) -> Plan:
        """The plan with `look_up`'s literals for its parameters; itself where it has none."""
        if self._root is None:
            return self.plan
        return replace(self.plan, root=self._root(_Binding(look_up)))

    def _node(self, node: PhysicalNode) -> _Maker | None:
        """What makes the node anew; None where it stays."""
        key = id(node)
        if key not in self._makers:
            parts = [(spec.name, self._value(getattr(node, spec.name))) for spec in fields(node)]
            makers = [(name, maker) for name, maker in parts if maker is not None]
            self._makers[key] = _node_maker(node, makers) if makers else None
        return self._makers[key]

    def _value(self, value: Any) -> _Maker | None:
        if isinstance(value, PhysicalNode):
            return self._node(value)
        if isinstance(value, Expr):
            return _expression_maker(value)
        if isinstance(value, OrderItem):
            maker = _expression_maker(value.expr)
            return None if maker is None else lambda binding: replace(value, expr=maker(binding))
        if isinstance(value, tuple):
            makers = [self._value(item) for item in value]
            if any(maker is not None for maker in makers):
                pairs = tuple(zip(value, makers, strict=True))
                return lambda binding: tuple([item if make is None else make(binding) for item, make in pairs])
        return None


def _node_maker(node: PhysicalNode, makers: Sequence[tuple[str, _Maker]]) -> _Maker:
    key, is_scan = id(node), isinstance(node, TableScan)

    def make(binding: _Binding) -> PhysicalNode:
        found = binding.done.get(key)
        if found is None:
            found = replace(node, **{name: maker(binding) for name, maker in makers})
            found = binding.done[key] = _pushed(found) if is_scan else found  # type: ignore[arg-type]
        return found

    return make


def _expression_maker(expr: Expr) -> _Maker | None:
    if isinstance(expr, Parameter):
        return lambda binding: binding.look_up(expr)
    if not any(isinstance(part, Parameter) for part in each(expr)):
        return None

    def make(binding: _Binding) -> Expr:
        return fold(rewrite(expr, lambda part: binding.look_up(part) if isinstance(part, Parameter) else part))

    return make


def _literal(parameter: Parameter, values: Sequence[Any] | Mapping[str, Any]) -> Literal:
    value = _look_up(parameter, values)
    type_ = parameter.type
    physical = value if type_.kind is Kind.NULL else type_.to_physical(value)
    return Literal(type_, physical is None, physical)


def _look_up(parameter: Parameter, values: Sequence[Any] | Mapping[str, Any]) -> Any:
    if isinstance(values, Mapping):
        if parameter.name is None:
            raise InterfaceError("the statement's parameters have positions, not names; pass a sequence of values")
        if parameter.name not in values:
            known = ", ".join(sorted(values)) or "none"
            raise InterfaceError(f"there is no value for parameter :{parameter.name}; values were given for {known}")
        return values[parameter.name]
    if parameter.index >= len(values):
        raise InterfaceError(
            f"there is no value for parameter {parameter.index + 1}; the statement was given {len(values)}"
        )
    return values[parameter.index]


def _pushed(scan: TableScan) -> TableScan:
    """The scan with those residual conditions that are now comparisons with literals as predicates."""
    names = {column.id: name for column, name in zip(scan.fetched, scan.names, strict=True)}
    parts = extract(conjuncts(scan.residual), names)
    return replace(scan, predicates=merge((*scan.predicates, *parts.predicates)), residual=all_of(parts.residual))
