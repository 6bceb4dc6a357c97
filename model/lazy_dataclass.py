"""Dataclasses whose methods are compiled at their first use.

`dataclasses.dataclass` compiles up to seven functions for each class when its module is imported: 0.5 ms for a frozen
class with four fields, 0.2 s over the 380 classes that a process imports before its first statement. Most of these
functions are never called. `dataclass` is the same decorator for the parameters that this package uses; it compiles
`__init__`, `__eq__` and `__hash__` when they are first called, which leaves 0.04 ms for each class
([decision](../docs/decisions/2026-11-27-methods-of-dataclasses-are-compiled-at-first-use.md)).

The fields are those of `dataclasses.dataclass`, so `fields`, `replace`, `asdict`, `is_dataclass`, patterns and
`__post_init__` work unchanged, and type checkers see the decorator of the standard library. Not supported: `InitVar`,
`order`, `unsafe_hash`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, slots=False, kw_only=False, weakref_slot=False):
        """`dataclasses.dataclass`, with methods that are compiled at their first use."""

        def decorate(cls):
            return _decorated(cls, frozen, eq, slots=slots, kw_only=kw_only, weakref_slot=weakref_slot)

        return decorate if cls is None else decorate(cls)


_FROM_FACTORY: Any = object()
"""Default of a parameter whose field has a default factory."""


def _decorated(cls: Any, frozen: bool, eq: bool, **options: bool) -> Any:
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # else `dataclasses` formats the signature, which costs more than the fields
    cls = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)
    methods: dict[str, Any] = {"__init__": _compiled_at_first_call(cls, "__init__", lambda: _init(cls, frozen))}
    methods["__repr__"] = _repr
    if eq:
        methods["__eq__"] = _compiled_at_first_call(cls, "__eq__", lambda: _eq(cls))
        methods["__hash__"] = _compiled_at_first_call(cls, "__hash__", lambda: _hash(cls)) if frozen else None
    if frozen:
        methods |= {"__setattr__": _refuse_assignment, "__delattr__": _refuse_deletion}
        if options["slots"]:
            methods |= {"__getstate__": _state, "__setstate__": _restore}
    own = dict(cls.__dict__)
    if own.get("__hash__") is None and "__eq__" in own:
        own.pop("__hash__", None)  # Python sets None where a class has `__eq__` alone
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    return cls


def _compiled_at_first_call(cls: Any, name: str, make: Callable[[], Any]) -> Any:
    """A method that replaces itself in `cls` by the result of `make`, and calls that."""

    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        compiled = make()
        # Threads that come here at the same time set equal functions.
        setattr(cls, name, compiled)
        return compiled(self, *args, **kwargs)

    method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
    return method


def _function(cls: Any, name: str, parameters: list[str], body: list[str], names: dict[str, Any]) -> Any:
    lines = [f"def {name}({', '.join(parameters)}):", *(f" {line}" for line in body)]
    exec("\n".join(lines), names)
    function = names[name]
    function.__module__, function.__qualname__ = cls.__module__, f"{cls.__qualname__}.{name}"
    return function


def _init(cls: Any, frozen: bool) -> Any:
    """`__init__`, with the parameters and the order of assignments of the standard library."""
    names: dict[str, Any] = {"__set": object.__setattr__, "__FROM_FACTORY": _FROM_FACTORY}
    positional: list[str] = ["__self"]
    by_keyword: list[str] = []
    body: list[str] = []
    annotations: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        name, value = field.name, field.name
        factory, default = f"__factory_{name}", f"__default_{name}"
        if field.default_factory is not dataclasses.MISSING:
            names[factory] = field.default_factory
            value = f"{factory}() if {name} is __FROM_FACTORY else {name}" if field.init else f"{factory}()"
            default = "__FROM_FACTORY"
        elif field.default is not dataclasses.MISSING:
            names[default] = field.default
            value = name if field.init else default
        elif field.init:
            default = ""
        else:
            continue  # `__post_init__` sets it
        if field.init:
            parameters = by_keyword if field.kw_only else positional
            parameters.append(f"{name}={default}" if default else name)
            annotations[name] = field.type
        body.append(f'__set(__self, "{name}", {value})' if frozen else f"__self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("__self.__post_init__()")
    parameters = [*positional, "*", *by_keyword] if by_keyword else positional
    function = _function(cls, "__init__", parameters, body or ["pass"], names)
    function.__annotations__ = {**annotations, "return": None}
    return function


def _compared(cls: Any, instance: str) -> str:
    """The text of a tuple of the fields that count in comparisons."""
    fields = (field for field in dataclasses.fields(cls) if field.compare)
    return "(" + "".join(f"{instance}.{field.name}, " for field in fields) + ")"


def _eq(cls: Any) -> Any:
    equal = f"return {_compared(cls, 'self')} == {_compared(cls, 'other')}"
    body = ["if other.__class__ is self.__class__:", f" {equal}", "return NotImplemented"]
    return _function(cls, "__eq__", ["self", "other"], body, {})


def _hash(cls: Any) -> Any:
    return _function(cls, "__hash__", ["self"], [f"return hash({_compared(cls, 'self')})"], {})


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _is_frozen(instance: Any, name: str) -> bool:
    """True for all attributes of a dataclass, and for the fields of a class that is derived from one without fields."""
    cls = type(instance)
    return "__dataclass_fields__" in cls.__dict__ or name in cls.__dataclass_fields__


def _refuse_assignment(self: Any, name: str, value: Any) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_deletion(self: Any, name: str) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _state(self: Any) -> list[Any]:
    """The state of a frozen instance with slots, for `copy` and `pickle`."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
