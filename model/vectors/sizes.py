"""Memory of vectors: cheap enough to compute for every column of every batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from .vector import Batch, Const, Dict, Flat, Narrow, Text, Vector, Wide

_CONST = 64
_OBJECT = 16


def text_bytes(array: pa.Array) -> int:
    """`Array.nbytes` of texts without releasing the interpreter lock, which `nbytes` does each time: with several
    threads, reacquiring it takes some ten microseconds."""
    if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)) or not len(array):
        return int(array.nbytes)
    validity, offsets, _ = array.buffers()
    places = np.frombuffer(offsets, np.int32, len(array) + 1, 4 * array.offset)
    held = 0 if validity is None else (len(array) + 7) // 8
    return held + int(places.nbytes) + int(places[-1]) - int(places[0])


def vector_bytes(vector: Vector) -> int:
    """Approximate memory of a vector in bytes; a dictionary counts in each vector that has it."""
    if isinstance(vector, Const):
        return _CONST
    if isinstance(vector, Text | Wide):
        return text_bytes(vector.array)
    size = 0 if vector.validity is None else int(vector.validity.nbytes)
    if isinstance(vector, Narrow):
        return size + int(vector.codes.nbytes)
    if isinstance(vector, Dict):
        return size + int(vector.codes.nbytes) + text_bytes(vector.dictionary)
    if isinstance(vector, Flat):
        return size + int(vector.values().nbytes)
    return size + _OBJECT * len(vector)


def batch_bytes(batch: Batch) -> int:
    """Approximate memory of a batch whose columns are read, in bytes."""
    return sum([vector_bytes(vector) for vector in batch.columns()])
