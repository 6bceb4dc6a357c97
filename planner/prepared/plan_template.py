"""Binding of values to a plan: the last step before execution, cheap enough for every execution.

A `PlanTemplate` locates the parameters once. Binding then rebuilds only the nodes that hold them, and the nodes above:

    HashAggregate            rebuilt: its input is
      HashJoin               rebuilt: its input is
        Scan lineitem        rebuilt: l_shipdate < ? becomes a predicate of the scan (`planner.scans.parameter_slots`)
        Scan orders          unchanged

A *maker* rebuilds a node or an expression: a function of the values, created once; None stands for "unchanged".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeAlias

from ...errors import InterfaceError
from ...model.types import Kind
from ...sql.expressions import Call, Cast, Column, Expr, InValues, Literal, OrderItem, Parameter
from ..algebra.physical import PhysicalNode, TableScan
from ..algebra.trees import each, rewrite
from ..fold import fold, simplify
from ..query_plan import Plan
from ..scans.parameter_slots import Binding, ExpressionMaker, pushed_conditions

Maker: TypeAlias = Callable[[Binding], Any]


def bind_parameters(plan: Plan, values: Sequence[Any] | Mapping[str, Any]) -> Plan:
    """Return the plan with a literal for every parameter; conditions on them move down into the scans.

    Parameters
    ----------
    plan : Plan
        As `plan_query` made it; a plan without parameters is returned unchanged.
    values : sequence or mapping
        Python values by position, or by name for `:name`; converted to each parameter's type.

    Raises `InterfaceError` if a value is missing, `InvalidText` or `NumericOutOfRange` if one does not fit.
    """
    template = PlanTemplate(plan)
    return template.bind([_physical(parameter, values) for parameter in template.parameters])


class PlanTemplate:
    """A plan to which values are bound repeatedly. Threads may share it.

    Attributes
    ----------
    parameters : list of Parameter
        Every parameter of the plan, once each.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self.parameters: list[Parameter] = []
        self._numbers: dict[int, int] = {}
        self._makers: dict[int, Maker | None] = {}
        self._root = self._node(plan.root)

    def bind(self, values: Sequence[Any]) -> Plan:
        """Return the plan with values for its `parameters`, physical ones of the parameters' types; itself if it has
        none."""
        if self._root is None:
            return self.plan
        return replace(self.plan, root=self._root(Binding(values)))

    def _node(self, node: PhysicalNode) -> Maker | None:
        """Maker of the node; None if it stays unchanged."""
        key = node.number
        if key not in self._makers:
            makers = [(spec.name, self._value(getattr(node, spec.name))) for spec in fields(node)]
            found = {name: maker for name, maker in makers if maker is not None}
            self._makers[key] = self._node_maker(node, found) if found else None
        return self._makers[key]

    def _node_maker(self, node: PhysicalNode, makers: dict[str, Maker]) -> Maker:
        if not isinstance(node, TableScan) or makers.pop("residual", None) is None:
            return _once(node, _copier(node, makers))
        copy = _copier(node, makers)
        pushed = pushed_conditions(node, self._expression, self._number)
        put_predicates, put_residual = _setter(TableScan, "predicates"), _setter(TableScan, "residual")

        def make(binding: Binding) -> PhysicalNode:
            found: PhysicalNode = copy(binding)
            predicates, residual = pushed(binding)
            put_predicates(found, predicates)
            put_residual(found, residual)
            return found

        return _once(node, make)

    def _value(self, value: Any) -> Maker | None:
        if isinstance(value, PhysicalNode):
            return self._node(value)
        if isinstance(value, Expr):
            return self._expression(value)
        if isinstance(value, OrderItem):
            maker = self._expression(value.expr)
            return None if maker is None else lambda binding: replace(value, expr=maker(binding))
        if isinstance(value, tuple):
            return _tuple_maker(value, [self._value(item) for item in value])
        return None

    # ---- expressions -------------------------------------------------------------------------------------------

    def _expression(self, expr: Expr) -> ExpressionMaker | None:
        """Maker of an expression, folded; None if it reads no parameter."""
        if isinstance(expr, Parameter):
            return self._literal(expr)
        if not any(isinstance(part, Parameter) for part in each(expr)):
            return None
        if isinstance(expr, Call):
            return self._call(expr)
        if isinstance(expr, InValues):
            arg, items = self._part(expr.arg), self._parts(expr.items)
            return lambda binding: simplify(InValues(expr.type, expr.nullable, arg(binding), items(binding)))
        if isinstance(expr, Cast):
            inner = self._part(expr.arg)
            return lambda binding: simplify(Cast(expr.type, expr.nullable, inner(binding), expr.safe))
        literals = {id(part): self._literal(part) for part in each(expr) if isinstance(part, Parameter)}

        def put(part: Expr, binding: Binding) -> Expr:
            return literals[id(part)](binding) if isinstance(part, Parameter) else part

        return lambda binding: fold(rewrite(expr, lambda part: put(part, binding)))

    def _call(self, expr: Call) -> ExpressionMaker:
        type_, nullable, function, args = expr.type, expr.nullable, expr.function, self._parts(expr.args)
        if function in _COMPARISONS and any(isinstance(arg, Column) for arg in expr.args):
            return lambda binding: Call(type_, nullable, function, args(binding))
        return lambda binding: simplify(Call(type_, nullable, function, args(binding)))

    def _part(self, expr: Expr) -> ExpressionMaker:
        maker = self._expression(expr)
        if maker is not None:
            return maker
        folded = fold(expr)
        return lambda binding: folded

    def _parts(self, exprs: Sequence[Expr]) -> Callable[[Binding], tuple[Expr, ...]]:
        makers = [self._part(expr) for expr in exprs]
        return lambda binding: tuple([maker(binding) for maker in makers])

    def _literal(self, parameter: Parameter) -> ExpressionMaker:
        number, type_ = self._number(parameter), parameter.type

        def make(binding: Binding) -> Literal:
            value = binding.values[number]
            return Literal(type_, value is None, value)

        return make

    def _number(self, parameter: Parameter) -> int:
        number = self._numbers.setdefault(id(parameter), len(self.parameters))
        if number == len(self.parameters):
            self.parameters.append(parameter)
        return number


_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
"""Calls in which nothing can be folded as long as one side is a column."""


def _once(node: PhysicalNode, make: Maker) -> Maker:
    """Memoize a maker per binding: a node that occurs twice in the plan is to become one object."""
    key = node.number

    def made(binding: Binding) -> Any:
        found = binding.done.get(key)
        if found is None:
            found = binding.done[key] = make(binding)
        return found

    return made


def _copier(node: PhysicalNode, makers: Mapping[str, Maker]) -> Maker:
    """Maker that copies a node, rebuilding the fields that have makers. It fills the slots of the new node directly,
    which takes a third of the time of `dataclasses.replace`."""
    kind = type(node)
    kept = [(_setter(kind, s.name), getattr(node, s.name)) for s in fields(node) if s.name not in makers]
    made = [(_setter(kind, name), maker) for name, maker in makers.items()]

    def copy(binding: Binding) -> PhysicalNode:
        found: PhysicalNode = kind.__new__(kind)
        for put, value in kept:
            put(found, value)
        for put, maker in made:
            put(found, maker(binding))
        return found

    return copy


def _setter(kind: type[PhysicalNode], name: str) -> Callable[[PhysicalNode, Any], None]:
    """Function that fills a slot of a node under construction."""
    put: Callable[[PhysicalNode, Any], None] = getattr(kind, name).__set__
    return put


def _tuple_maker(items: tuple[Any, ...], makers: Sequence[Maker | None]) -> Maker | None:
    if all(maker is None for maker in makers):
        return None
    pairs = tuple(zip(items, makers, strict=True))
    return lambda binding: tuple([item if make is None else make(binding) for item, make in pairs])


def _physical(parameter: Parameter, values: Sequence[Any] | Mapping[str, Any]) -> Any:
    value = _look_up(parameter, values)
    return value if parameter.type.kind is Kind.NULL else parameter.type.to_physical(value)


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
