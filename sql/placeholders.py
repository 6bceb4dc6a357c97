"""Placeholders: `?` by order of appearance, `$1` by number, `:name` by name; one style per statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from ..errors import InterfaceError, SqlSyntaxError
from ..model.lazy_dataclass import dataclass
from .deferred_parameters import Key
from .expressions import Literal
from .literals import from_python
from .syntax.parser import ParsedStatement

Parameters = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Given:
    """The values of a statement's parameters as literals, and the value of each placeholder (by the identity of its
    syntax node)."""

    literals: Mapping[Key, Literal]
    places: Mapping[int, Key]


def match_parameters(parsed: ParsedStatement, parameters: Parameters | None) -> Given:
    """The values for the placeholders of a statement.

    Raises `InterfaceError` if styles are mixed, values are missing or superfluous, or a value has no SQL type.
    """
    if not parameters and not any(mark in parsed.text for mark in "?$:"):
        return Given({}, {})  # avoids a walk through the whole tree
    placeholders, styles = _found(parsed)
    if styles == {":name"}:
        return _by_name(placeholders, parameters)
    if isinstance(parameters, Mapping):
        if parameters or placeholders:
            raise InterfaceError("the statement has no :name placeholders; give its parameters as a sequence")
        parameters = ()
    if isinstance(parameters, str | bytes):
        raise InterfaceError("give the parameters as a sequence of values, not as one string")
    values = tuple(parameters or ())
    places = _places(placeholders, styles)
    wanted = max(places, default=-1) + 1
    if wanted != len(values):
        raise InterfaceError(f"the statement has {_count(wanted)}, {len(values)} given")
    literals: dict[Key, Literal] = {place: from_python(value) for place, value in enumerate(values)}
    return Given(literals, {id(node): position for node, position in zip(placeholders, places)})


def positions(parsed: ParsedStatement) -> dict[int, int]:
    """The 0-based position of each placeholder, by the identity of its syntax node; `InterfaceError` for :name."""
    placeholders, styles = _found(parsed)
    if styles == {":name"}:
        raise InterfaceError("placeholders with names have no positions: use $1")
    return {id(node): place for node, place in zip(placeholders, _places(placeholders, styles))}


def _found(parsed: ParsedStatement) -> tuple[list[Any], set[str]]:
    """The placeholders of a statement in their order, and their styles: one, or none."""
    placeholders = sorted(
        parsed.tree.find_all(exp.Placeholder, exp.Parameter), key=lambda node: node.meta.get("start", 0)
    )
    _refuse_names(placeholders, parsed)
    styles = {_style(node) for node in placeholders}
    if len(styles) > 1:
        raise InterfaceError("a statement uses one style of placeholders: ?, $1 or :name")
    return placeholders, styles


def _places(placeholders: list[Any], styles: set[str]) -> list[int]:
    return [_number(node) for node in placeholders] if styles == {"$1"} else list(range(len(placeholders)))


def _style(node: Any) -> str:
    """An example of the placeholder's style."""
    if isinstance(node, exp.Parameter):
        return "$1"
    return ":name" if node.this else "?"


def _refuse_names(found: list[Any], parsed: ParsedStatement) -> None:
    """Rejects a placeholder in the position of a name, such as `AS ?`: a parameter is a value."""
    for node in found:
        if node.arg_key == "alias" or isinstance(node.parent, exp.TableAlias):
            start = node.meta.get("start")
            raise SqlSyntaxError("a name expected: a parameter is a value, and no name", parsed.text, start)


def _by_name(nodes: list[Any], parameters: Parameters | None) -> Given:
    if not isinstance(parameters, Mapping):
        raise InterfaceError("the statement has :name placeholders; give its parameters as a mapping")
    wanted = {str(node.this) for node in nodes}
    if missing := sorted(wanted - set(parameters)):
        raise InterfaceError(f"parameters missing: {', '.join(':' + name for name in missing)}")
    if unknown := sorted(set(map(str, parameters)) - wanted):
        raise InterfaceError(f"the statement has no placeholder {', '.join(':' + name for name in unknown)}")
    literals: dict[Key, Literal] = {name: from_python(parameters[name]) for name in sorted(wanted)}
    return Given(literals, {id(node): str(node.this) for node in nodes})


def _number(node: Any) -> int:
    position = int(node.this.this)
    if position < 1:
        raise InterfaceError("placeholders count from $1")
    return position - 1


def _count(n: int) -> str:
    return "no placeholder" if n == 0 else f"{n} placeholder{'s' if n > 1 else ''}"
