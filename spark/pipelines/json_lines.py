"""Converts Arrow batches to JSON lines, by whole columns.

| type | JSON |
|---|---|
| integers, DECIMAL, FLOAT, DOUBLE | a number with all of its digits; NaN and infinities as texts, "NaN" |
| BOOLEAN | true, false |
| DATE, TIMESTAMP | a text: "2026-11-22", "2026-11-22 08:00:00.000000" |
| BINARY | a text of hexadecimal digits |
| NULL | null |
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_CONTROL = r"[\x00-\x1f]"


def json_lines(batch: pa.RecordBatch) -> bytes:
    """The rows, an object and a line break each.

    >>> json_lines(pa.RecordBatch.from_pydict({"k": [1, 2], "v": ['say "x"', None]}))
    b'{"k":1,"v":"say \\\\"x\\\\""}\\n{"k":2,"v":null}\\n'
    """
    if not batch.num_rows:
        return b""
    parts: list[Any] = []
    for number, (name, array) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        parts += [pa.scalar(("," if number else "{") + json.dumps(name, ensure_ascii=False) + ":"), _values(array)]
    lines = pc.binary_join_element_wise(*parts, pa.scalar("}\n"), pa.scalar(""))
    return b"".join(pc.cast(lines, pa.binary()).to_pylist())


def as_texts(batch: pa.RecordBatch) -> list[pa.Array]:
    """The columns, bytes as hexadecimal digits."""
    return [_hexadecimal(array) if pa.types.is_binary(array.type) else array for array in batch.columns]


def _values(array: pa.Array) -> pa.Array:
    """Each value as JSON."""
    type_ = array.type
    if pa.types.is_binary(type_):
        array = _quoted(_hexadecimal(array))
    elif pa.types.is_string(type_):
        array = _quoted(_escaped(array))
    elif pa.types.is_floating(type_):
        finite = pc.is_finite(array)
        texts = pc.cast(array, pa.string())
        strange = pc.if_else(pc.is_nan(array), '"NaN"', pc.if_else(pc.greater(array, 0), '"Infinity"', '"-Infinity"'))
        array = pc.if_else(finite, texts, strange)
    elif pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        array = _quoted(pc.cast(array, pa.string()))
    else:
        array = pc.cast(array, pa.string())
    return pc.fill_null(array, "null")


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _escaped(texts: pa.Array) -> pa.Array:
    for plain, escaped in _ESCAPES:
        texts = pc.replace_substring(texts, plain, escaped)
    strange = pc.fill_null(pc.match_substring_regex(texts, _CONTROL), False)
    if not pc.any(strange).as_py():
        return texts
    # Other control characters are rare: these values are written one by one.
    chosen = np.flatnonzero(strange.to_numpy(zero_copy_only=False))
    written = [_control(text) for text in texts.take(pa.array(chosen)).to_pylist()]
    return pc.replace_with_mask(texts, strange, pa.array(written, pa.string()))


def _control(text: str) -> str:
    return "".join(f"\\u{ord(c):04x}" if c < " " else c for c in text)


def _hexadecimal(array: pa.BinaryArray) -> pa.StringArray:
    """Bytes as hexadecimal digits: all of them at once, with doubled offsets."""
    array = pa.concat_arrays([array])  # without an offset
    validity, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32)[: len(array) + 1].astype(np.int64)
    digits = (b"" if data is None else data[int(ends[0]) : int(ends[-1])].to_pybytes()).hex().encode()
    placed = pa.py_buffer(((ends - ends[0]) * 2).astype(np.int64))
    texts = pa.Array.from_buffers(pa.large_string(), len(array), [validity, placed, pa.py_buffer(digits)])
    return texts.cast(pa.string())
