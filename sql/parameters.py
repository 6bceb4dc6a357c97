"""Placeholders: `?` by order of appearance, `$1` by number, `:name` by name; one style per statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from ..errors import InterfaceError
from .expressions import Literal
from .literals import from_python

Parameters = Sequence[Any] | Mapping[str, Any]


def bind_parameters(tree: Any, parameters: Parameters | None) -> dict[int, Literal]:
    """The literal for each placeholder of a tree, by the placeholder's identity.

    Raises `InterfaceError` where styles are mixed, values are missing or left over, or a value has no SQL type.
    """
    found = sorted(tree.find_all(exp.Placeholder, exp.Parameter), key=lambda node: node.meta.get("start", 0))
    names = [node for node in found if isinstance(node, exp.Placeholder) and node.this]
    numbers = [node for node in found if isinstance(node, exp.Parameter)]
    if len({"$1" if n in numbers else ":name" if n in names else "?" for n in found}) > 1:
        raise InterfaceError("a statement uses one style of placeholders: ?, $1 or :name")
    if names:
        return _by_name(names, parameters)
    if isinstance(parameters, Mapping):
        if parameters or found:
            raise InterfaceError("the statement has no :name placeholders; give its parameters as a sequence")
        parameters = ()
    if isinstance(parameters, str | bytes):
        raise InterfaceError("give the parameters as a sequence of values, not as one string")
    values = tuple(parameters or ())
    positions = [_number(node) for node in numbers] if numbers else list(range(len(found)))
    wanted = max(positions, default=-1) + 1
    if wanted != len(values):
        raise InterfaceError(f"the statement has {_count(wanted)}, {len(values)} given")
    literals = [from_python(value) for value in values]
    return {id(node): literals[position] for node, position in zip(found, positions)}


def _by_name(nodes: list[Any], parameters: Parameters | None) -> dict[int, Literal]:
    if not isinstance(parameters, Mapping):
        raise InterfaceError("the statement has :name placeholders; give its parameters as a mapping")
    wanted = {str(node.this) for node in nodes}
    if missing := sorted(wanted - set(parameters)):
        raise InterfaceError(f"parameters missing: {', '.join(':' + name for name in missing)}")
    if unknown := sorted(set(map(str, parameters)) - wanted):
        raise InterfaceError(f"the statement has no placeholder {', '.join(':' + name for name in unknown)}")
    literals = {name: from_python(parameters[name]) for name in sorted(wanted)}
    return {id(node): literals[str(node.this)] for node in nodes}


def _number(node: Any) -> int:
    position = int(node.this.this)
    if position < 1:
        raise InterfaceError("placeholders count from $1")
    return position - 1


def _count(n: int) -> str:
    return "no placeholder" if n == 0 else f"{n} placeholder{'s' if n > 1 else ''}"
