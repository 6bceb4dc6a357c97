"""Dataclasses that compile their methods at the first use behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
from collections.abc import Callable
from dataclasses import KW_ONLY, field
from typing import Any, ClassVar

import pytest
from nyala.model.lazy_dataclass import dataclass


def _bodies() -> list[dict[str, Any]]:
    """Class bodies: annotations, defaults and methods."""
    return [
        {"__annotations__": {}},
        {"__annotations__": {"a": int, "b": str}},
        {"__annotations__": {"a": int, "b": str}, "b": "x"},
        {"__annotations__": {"a": int, "b": list}, "b": field(default_factory=list)},
        {"__annotations__": {"a": int, "b": int}, "b": field(default=3, compare=False)},
        {"__annotations__": {"a": int, "b": int}, "b": field(default=3, repr=False)},
        {"__annotations__": {"a": int, "b": int}, "b": field(default=3, init=False)},
        {"__annotations__": {"a": int, "b": list}, "b": field(default_factory=list, init=False)},
        {"__annotations__": {"a": int, "_": KW_ONLY, "b": int}, "b": 4},
        {"__annotations__": {"a": int, "b": int}, "a": field(kw_only=True)},
        {"__annotations__": {"a": int, "n": "ClassVar[int]"}, "n": 1},
        {"__annotations__": {"a": int}, "__eq__": lambda self, other: True},
        {"__annotations__": {"a": int}, "__hash__": lambda self: 7},
        {"__annotations__": {"a": int}, "__repr__": lambda self: "mine"},
        {"__annotations__": {"a": int}, "__post_init__": lambda self: object.__setattr__(self, "a", self.a * 2)},
    ]


_ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((1, 2), {}),
    ((2, 2), {}),
    ((1, 2, 3), {}),
    ((1,), {"b": 2}),
    ((), {"a": 1}),
    ((), {"a": 1, "b": 2}),
    ((), {"c": 1}),
]
_OPTIONS = [{}, {"frozen": True}, {"slots": True}, {"frozen": True, "slots": True}, {"eq": False, "slots": True}]


def _outcome(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


def _instances(cls: Any) -> list[Any]:
    return [_outcome(lambda a=args, k=kwargs: cls(*a, **k)) for args, kwargs in _ARGUMENTS]


def _facts(cls: Any, first: str) -> list[Any]:
    """The observable behaviour of a class; `first` names the method that is used before all others."""
    if first == "equality" and not isinstance(one := _outcome(lambda: cls(1)), tuple):
        _ = one == one, one == 1
    found: list[Any] = [cls.__match_args__, cls.__doc__ is not None, getattr(cls, "__slots__", None)]
    instances = _instances(cls)
    found.append([repr(instance) for instance in instances])
    real = [i for i in instances if not isinstance(i, tuple)]
    found.append([[a == b for b in [*real, 1]] for a in real])
    found.append([_outcome(lambda i=i: hash(i)) if cls.__hash__ is not object.__hash__ else None for i in real])
    # Assignments to other names than fields end in an error of `super` in the standard library, if there are slots.
    for instance in [i for i in real if hasattr(i, "a")]:
        found.append(_outcome(lambda i=instance: setattr(i, "a", 5)))
        found.append(_outcome(lambda i=instance: delattr(i, "a")))
        instance = _outcome(lambda: cls(3))
        if isinstance(instance, tuple):
            continue
        found.append(repr(copy.copy(instance)))
        found.append(repr(_outcome(lambda i=instance: dataclasses.replace(i, a=9))))
        found.append(repr(_outcome(lambda i=instance: dataclasses.asdict(i))))
    return found


@pytest.mark.parametrize("first", ["construction", "equality"])
@pytest.mark.parametrize("options", _OPTIONS, ids=repr)
@pytest.mark.parametrize("number", range(len(_bodies())))
def test_a_class_is_as_the_standard_library_makes_it(number: int, options: dict[str, bool], first: str) -> None:
    ours = dataclass(**options)(type("Cls", (), _bodies()[number]))
    theirs = dataclasses.dataclass(**options)(type("Cls", (), _bodies()[number]))
    assert _facts(ours, first) == _facts(theirs, first)


@dataclass(frozen=True, slots=True)
class Base:
    """A class to derive from."""

    a: int
    kind: ClassVar[str] = "base"


@dataclass(frozen=True, slots=True)
class Derived(Base):
    b: tuple[int, ...] = ()


class Plain(Derived):
    """Not a dataclass: it has a dictionary."""


@dataclass
class Cyclic:
    """May contain itself."""

    inner: Any = None


def test_derived_classes_have_methods_of_their_own() -> None:
    assert Derived(1, (2,)) == Derived(1, (2,)) != Derived(1)
    assert Base(1) != Derived(1)
    assert {Base(1), Base(1), Derived(1)} == {Base(1), Derived(1)}
    assert repr(Derived(1)) == "Derived(a=1, b=())"
    match Derived(1, (2,)):
        case Derived(a, (b,)):
            assert (a, b) == (1, 2)
        case _:
            raise AssertionError


def test_a_plain_subclass_of_a_frozen_class_has_attributes_besides_the_fields() -> None:
    instance = Plain(1)
    instance.other = 2
    del instance.other
    with pytest.raises(dataclasses.FrozenInstanceError, match="'a'"):
        instance.a = 2  # type: ignore[misc]


def test_frozen_instances_with_slots_survive_pickle() -> None:
    assert pickle.loads(pickle.dumps(Derived(1, (2, 3)))) == Derived(1, (2, 3))


def test_a_cycle_is_shown() -> None:
    cyclic = Cyclic()
    cyclic.inner = [cyclic]
    assert repr(cyclic) == "Cyclic(inner=[...])"


def test_threads_may_use_a_class_for_the_first_time_at_once() -> None:
    for _ in range(20):
        cls = dataclass(frozen=True)(type("Cls", (), {"__annotations__": {"a": int, "b": int}, "b": 1}))
        barrier, made = threading.Barrier(4), []

        def use(cls: Any = cls, barrier: Any = barrier, made: Any = made) -> None:
            barrier.wait()
            made.append({cls(1), cls(1, 1), cls(a=1)})

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [len(found) for found in made] == [1] * 4


def test_compiled_methods_replace_the_first_ones() -> None:
    cls: Any = dataclass(frozen=True)(type("Cls", (), {"__annotations__": {"a": int}}))
    before = cls.__init__
    assert cls(1) == cls(1)
    assert cls.__init__ is not before
    compiled = cls.__init__
    cls(2)
    assert cls.__init__ is compiled
