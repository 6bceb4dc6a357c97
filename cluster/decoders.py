"""The one place where msgspec decoders of Struct classes are built.

msgspec caches the type information of a Struct class on the class, and publishes it before it is complete: a second
thread that builds a decoder with the same class in it then reads a NULL pointer, and the process ends by SIGSEGV. So
all decoders are built here, under one lock, as a rule while the module that uses them is imported. The lock covers
modules that a thread imports, and classes that are defined later. Decoding needs no lock: a decoder that was returned
refers to complete information alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

_lock = threading.RLock()
"""Held while msgspec reads the annotations of Struct classes."""


@overload
def msgpack_decoder(kind: type[T]) -> msgspec.msgpack.Decoder[T]: ...
@overload
def msgpack_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]: ...
def msgpack_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """A decoder of msgpack with this type."""
    with _lock:
        return msgspec.msgpack.Decoder(kind)


def json_decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """A decoder of JSON with this type."""
    with _lock:
        return msgspec.json.Decoder(kind)


def converter(kind: type[T]) -> Callable[[Any], T]:
    """A function that makes a value of this type of plain data; raises `msgspec.ValidationError`.

    Building a decoder completes the cached information of all Struct classes within `kind`, so that conversions only
    read it.
    """
    msgpack_decoder(kind)
    return partial(msgspec.convert, type=kind)
