"""Forks: what a forked child inherits of nyala stays its parent's, and refuses to be used in the child.

A store lives from one process's memory, threads, locks and file descriptors. A child of `os.fork` has copies of the
first, none of the second, and shares the last. Two processes that write one log destroy it, so the child may do nothing
with what was open before the fork.

    open object ── stay_with_process ──► registry ── os.fork ──► in the child, for each registered object
                                                                    its `_abandon` closes descriptors, no more
                                                                    its class becomes one that refuses every call
                                                                    it is never freed: no finalizer runs

The class is exchanged in the child alone, so the parent's calls pay nothing for the check. Objects are never freed in
the child since what they hold would be finalized: generators wait for threads that are not there, and buffers are
flushed to files that the parent writes.

Caches and locks of modules are made anew in the child by `renew_in_child`: another thread may have held the lock when
the process forked. `finalize` is `weakref.finalize` that does nothing in a child.

A `close` that the parent has registered with `atexit` is not called when the child ends: there is nothing to close.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import weakref
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final, ParamSpec, TypeVar

from ..errors import InterfaceError

_log = logging.getLogger(__name__)

Thing = TypeVar("Thing")
P = ParamSpec("P")

_QUIET: Final = ("__del__", "__exit__")
"""Called by Python itself: an error there would replace the one on its way, or be printed."""
_UNCHANGED: Final = frozenset(
    (
        *("__class__", "__class_getitem__", "__delattr__", "__dir__", "__eq__", "__format__", "__getattribute__"),
        *("__getstate__", "__hash__", "__init__", "__init_subclass__", "__ne__", "__new__", "__reduce__"),
        *("__reduce_ex__", "__repr__", "__setattr__", "__sizeof__", "__str__", "__subclasshook__"),
    )
)
"""Dunder methods that do not depend on an object's content, or are replaced one by one."""

_process = os.getpid()
_parent: int | None = None
_is_exiting = False
"""True if a forked process is calling a function that its parent registered with `atexit`, perhaps `lambda:
store.close()`."""
_registered: Final[weakref.WeakSet[Any]] = weakref.WeakSet()
_renewals: Final[list[Callable[[], object]]] = []


def current_process() -> int:
    """Number of this process, without a system call."""
    return _process


def parent_process() -> int | None:
    """Number of the process from which this one was forked after nyala had been imported; None if there is none."""
    return _parent


def stay_with_process(*things: object) -> None:
    """Refuse any use of these objects in processes that are forked from this one.

    They must be weakly referable and hashable by identity. Objects with descriptors have a method `_abandon()`; the
    child calls it first, to close its copies. The parent's descriptors stay open.
    """
    for thing in things:
        _registered.add(thing)


def renew_in_child(renew: Callable[[], object]) -> None:
    """Call `renew` in each forked child, after the inherited objects have been disabled."""
    _renewals.append(renew)


def finalize(
    thing: object, call: Callable[P, object], /, *arguments: P.args, **named: P.kwargs
) -> weakref.finalize[P, object]:
    """`weakref.finalize` whose call is left out in processes that are forked from this one."""
    process = _process

    def finalizer(*arguments: P.args, **named: P.kwargs) -> object:
        return call(*arguments, **named) if process == _process else None

    return weakref.finalize(thing, finalizer, *arguments, **named)


def is_inherited(thing: object) -> bool:
    """True if the object was open in the process from which this one was forked."""
    return hasattr(type(thing), "_inherited_from")


def check_process(thing: object) -> None:
    """Raise `InterfaceError` if `thing` is inherited, for calls that do not touch it otherwise."""
    if is_inherited(thing):
        kind = type(thing)
        raise InterfaceError(inherited_message(_shown(kind), kind._inherited_from))  # type: ignore[attr-defined]


def inherited_message(what: str, process: int) -> str:
    """Text of the `InterfaceError` about something that process `process` has opened."""
    return (
        f"this {what} belongs to process {process}, from which process {_process} was forked: what was open before "
        "the fork cannot be used after it. Open the store after the fork; if several processes need it at the same "
        "time, serve the directory from a process of its own (`nyala serve DIR`) and connect after the fork to the "
        "directory or its nyala:// URL (or use multiprocessing's 'spawn')"
    )


# ---- in the child ----------------------------------------------------------------------------------------------------


def _give_up_inherited() -> None:
    """`os.register_at_fork`: in a forked child, before any other code of it."""
    global _parent, _process
    _parent, _process = _process, os.getpid()
    inherited = list(_registered)
    _registered.clear()
    _quietly(_detach_finalizers, inherited)
    for thing in inherited:
        if hasattr(type(thing), "close"):
            _quietly(atexit.unregister, thing.close)
    atexit.register(_note_exit)  # called before all that was registered before the fork
    for thing in inherited:
        _quietly(_give_up, thing, _parent)
    for renew in _renewals:
        _quietly(renew)


def _note_exit() -> None:
    global _is_exiting
    _is_exiting = True


def _give_up(thing: Any, parent: int) -> None:
    # Before anything that may fail: an object that is freed would run its finalizers.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    abandon = getattr(thing, "_abandon", None)
    try:
        if abandon is not None:
            abandon()
    finally:
        kind: Any = type(thing)
        object.__setattr__(thing, "__class__", _refusing(kind, parent))


def _detach_finalizers(inherited: list[Any]) -> None:
    """Drop finalizers that other libraries have made for inherited objects: Python would call them when the child
    exits, and Arrow's shuts down the sockets of the parent's server."""
    known = set(map(id, inherited))
    for finalizer in list(getattr(weakref.finalize, "_registry", ())):
        alive = finalizer.peek()
        if alive is not None and id(alive[0]) in known:
            finalizer.detach()


def _quietly(call: Callable[..., object], *arguments: object) -> None:
    # A failure for one object must not leave the others usable.
    try:
        call(*arguments)
    except Exception:
        _log.exception("an inherited object could not be disabled after a fork")


@cache
def _refusing(kind: type, process: int) -> type:
    """A subclass of the same layout whose instances refuse every use."""
    name = _shown(kind)

    def refuse(self: object, *arguments: object, **named: object) -> Any:
        raise InterfaceError(inherited_message(name, process))

    def get(self: object, attribute: str) -> Any:
        if attribute.startswith("__") and attribute.endswith("__"):
            return object.__getattribute__(self, attribute)
        if attribute == "close" and _is_exiting:
            return partial(ignore, self)
        raise InterfaceError(inherited_message(name, process))

    def show(self: object) -> str:
        return f"<{name} of process {process}, of no use in process {_process}>"

    def ignore(self: object, *arguments: object) -> None:
        pass

    members: dict[str, Any] = {
        "__slots__": (),
        "__getattribute__": get,
        "__setattr__": refuse,
        "__repr__": show,
        "_inherited_from": process,
    }
    members.update({special: ignore if special in _QUIET else refuse for special in _special_methods(kind)})
    return type(kind)(kind.__name__, (kind,), members)


def _shown(kind: type) -> str:
    return kind.__name__.lstrip("_")


def _special_methods(kind: type) -> list[str]:
    """Methods that Python calls by the class, past `__getattribute__`: iteration, length, `with` and the like."""
    methods: Mapping[str, Any] = {
        name: value for base in reversed(kind.__mro__[:-1]) for name, value in vars(base).items()
    }
    return [
        name
        for name, value in methods.items()
        if name.startswith("__") and name.endswith("__") and name not in _UNCHANGED and callable(value)
    ]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_give_up_inherited)
