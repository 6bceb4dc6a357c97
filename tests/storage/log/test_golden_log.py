"""Golden log entries: the bytes of each kind, field by field (`golden/entries.txt`, in the form that `golden` has).

A command is the kind of an entry and what it holds; the entry is encoded anew, and decoded again. Record batches of
Arrow are not shown, nor what depends on their length: versions of pyarrow may write them differently.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from nyala.model.store import Op
from nyala.storage.log.wal_format import EntryKind, WritePart, decode_write, encode_front, encode_write
from nyala.storage.single_rows.wal_row import decode_row, encode_row, row_front

SCRIPT = Path(__file__).parent / "golden" / "entries.txt"
SCHEMA = pa.schema([pa.field("k", pa.int64(), False), pa.field("v", pa.string()), pa.field("n", pa.int32())])
FRONT = {
    "length": 4,
    "crc": 4,
    "term": 8,
    "index": 8,
    "timestamp": 8,
    "durable": 8,
    "kind": 1,
    "goes on": 1,
    "witness": 6,
}


def cut(data: bytes, sizes: dict[str, int]) -> list[tuple[str, str]]:
    """The pieces of some bytes by name, in hexadecimal; a piece of no bytes is left out."""
    shown, place = [], 0
    for name, size in sizes.items():
        if size:
            shown.append((name, data[place : place + size].hex(" ")))
        place += size
    assert place == len(data), f"{len(data)} bytes, {place} of them named"
    return shown


def row_body(op: Op, names: list[str], values: list[Any]) -> tuple[bytes, list[tuple[str, str]]]:
    places = [SCHEMA.get_field_index(name) for name in names]
    whole = places == list(range(len(SCHEMA)))
    body = encode_row(row_front(op, [] if whole else places), values)
    part = decode_row(memoryview(body), SCHEMA)
    assert (part.op, list(part.places), list(part.values)) == (op, places, values)
    columns = 0 if whole else 2 * len(places)
    sizes = {"op": 1, "zero": 1, "columns": 2, "places": columns, "values": len(body) - 4 - columns}
    return body, cut(body, sizes)


def write_body(op: Op, names: list[str], rows: list[list[Any]]) -> tuple[bytes, list[tuple[str, str]]]:
    """A value `...` is one that the row does not set."""
    places = tuple(SCHEMA.get_field_index(name) for name in names)
    fields = [SCHEMA.field(place) for place in places]
    columns = [[None if value is ... else value for value in column] for column in zip(*rows)]
    isset = {
        place: np.array([value is not ... for value in column])
        for place, column in zip(places, zip(*rows))
        if ... in column
    }
    batch = pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, fields)], schema=pa.schema(fields))
    body = encode_write([WritePart(op, batch, places, isset)], len(SCHEMA))
    (part,) = decode_write(body, SCHEMA)
    assert (part.op, part.places, part.rows.to_pylist()) == (op, places, batch.to_pylist())
    assert {place: mask.tolist() for place, mask in part.isset.items()} == {p: m.tolist() for p, m in isset.items()}
    numbers = 2 * ((0 if len(places) == len(SCHEMA) else len(places)) + len(isset))
    bitmaps = len(isset) * -(-len(rows) // 8)
    head = {"rows": 4, "op": 1, "one": 1, "columns": 2, "bitmaps": 2, "zeros": 2}
    front = 16 + numbers + -numbers % 8 + bitmaps + -bitmaps % 8
    sizes = {"places": numbers, "padding": -numbers % 8, "bits": bitmaps, "padding of bits": -bitmaps % 8}
    shown = [*cut(body[:12], head), ("message", "its length"), *cut(body[16:front], sizes)]
    return body, [*shown, ("record batch", "of Arrow, padded to 8 bytes")]


def entry(command: str) -> str:
    """An entry as the command says: KIND, op and columns, and the rows."""
    kind_name, _, rest = command.partition(" ")
    kind = EntryKind[kind_name]
    if kind is EntryKind.COMMIT:
        body = msgspec.msgpack.encode(ast.literal_eval(rest))
        shown = cut(body, {"map": len(body)})
    else:
        head, _, text = rest.partition(": ")
        op, *names = head.split()
        values = ast.literal_eval(f"[{text.replace('NULL', 'None')}]")
        body, shown = row_body(Op[op], names, values) if kind is EntryKind.ROW else write_body(Op[op], names, values)
    front = encode_front(1, 7, 0x1122334455667788, 6, kind, body, witness=int(kind is EntryKind.COMMIT))
    if kind in (EntryKind.WRITE, EntryKind.PART):
        shown = [(n, "of the rest") if n in ("length", "crc") else (n, v) for n, v in cut(front, FRONT)] + shown
    else:
        shown = cut(front, FRONT) + shown
    return "\n".join(f"{name:<16} {value}" for name, value in shown)


def test_entries_have_the_bytes_that_they_had(golden: Callable[[Path, Callable[[str], str]], None]) -> None:
    golden(SCRIPT, entry)
