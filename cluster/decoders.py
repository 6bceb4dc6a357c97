"""Construction of msgspec decoders of Struct classes, under one lock.

msgspec caches the type information of a Struct class on the class, and publishes it before it is complete. A second
thread that builds a decoder with the same class then reads a NULL pointer, and the process ends by SIGSEGV. So all
decoders are built here, under one lock, usually while the module that uses them is imported. The lock also covers
modules that a thread imports, and classes that are defined later. Decoding needs no lock: a decoder that was returned
refers to complete information only.
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
    """Returns a msgpack decoder for this type."""
    with _lock:
        return msgspec.msgpack.Decoder(kind)


def json_decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Returns a JSON decoder for this type."""
    with _lock:
        return msgspec.json.Decoder(kind)


def converter(kind: type[T]) -> Callable[[Any], T]:
    """Returns a function that converts plain data to this type; it raises `msgspec.ValidationError`.

    Building a decoder completes the cached information of all Struct classes within `kind`, so conversions only read
    it.
    """
    msgpack_decoder(kind)
    return partial(msgspec.convert, type=kind)
