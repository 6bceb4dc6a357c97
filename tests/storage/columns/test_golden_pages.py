"""Golden pages: each encoding of a small column, byte by byte (`golden/encodings.txt`, in the form that `golden` has).

A command is a type, an encoding and the values; the output is the page's record, and its parts in hexadecimal. The file
is written anew, and read back. The bytes are the format: where they differ, older files are not read any more, or older
versions do not read new ones.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
from nyala.model.schema import ColumnSchema, Compression, Encoding, possible_encodings
from nyala.model.types import BIGINT, BOOLEAN, DECIMAL, DOUBLE, INT, STRING, DataType
from nyala.storage.columns.column_file import AS_THEY_ARE, BITS, FRONTS, LENGTHS, RUNS
from nyala.storage.columns.column_reader import ColumnReader
from nyala.storage.columns.column_writer import write_column
from nyala.storage.files.file_handles import FileHandles
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.files.page_cache import PageCache

SCRIPT = Path(__file__).parent / "golden" / "encodings.txt"
TYPES = {
    "BOOLEAN": BOOLEAN,
    "INT": INT,
    "BIGINT": BIGINT,
    "DOUBLE": DOUBLE,
    "STRING": STRING,
    "DECIMAL": DECIMAL(38, 2),
}
LAYOUTS = {AS_THEY_ARE: "as they are", BITS: "bits", RUNS: "runs", FRONTS: "fronts", LENGTHS: "lengths"}


def parts(type_: DataType, encoding: Encoding, record: Any, rows: int, page: bytes) -> Iterator[tuple[str, bytes]]:
    """The page in pieces with a name each; all of its bytes, in order."""
    layout, width = int(record["layout"]), int(record["width"])
    place = 0

    def piece(name: str, size: int) -> tuple[str, bytes]:
        nonlocal place
        place += size
        return name, page[place - size : place]

    if record["nulls"]:
        yield piece("validity", -(-rows // 64) * 8)
    if layout == BITS:
        plane = -(-rows // 8)
        for bit in range((len(page) - place) // plane):
            yield piece(f"bit {bit}", plane)
    elif layout == RUNS:
        count = (len(page) - place) // (width + 2)
        yield piece("codes", count * width)
        yield piece("rows - 1", count * 2)
    elif layout in (FRONTS, LENGTHS):
        yield piece("lengths", rows * width)
        if layout == FRONTS:
            yield piece("shared", rows)
        yield piece("texts", len(page) - place)
    elif type_.is_text and encoding is Encoding.PLAIN:
        yield piece("offsets", 4 * (rows + 1))
        yield piece("texts", len(page) - place)
    else:
        size = (len(page) - place) // rows
        for row in range(rows):
            yield piece(f"row {row}", size)


def page_of(command: str) -> str:
    """The page of a column that is written as the command says."""
    head, _, text = command.partition(": ")
    name, encoding_name = head.split()
    type_, encoding = TYPES[name], Encoding(encoding_name)
    values: list[Any] = list(ast.literal_eval(f"[{text.replace('NULL', 'None')}]"))
    if type_.is_decimal:
        values = [None if value is None else Decimal(value) for value in values]
    array = pa.array(values, type_.arrow)
    fs = MemoryFileSystem()
    write_column(fs, "c.col", ColumnSchema("c", type_, id=1, encoding=encoding, compression=Compression.NONE), array)
    reader = ColumnReader(FileHandles(fs), "c.col", 1, type_, len(values), PageCache(1 << 20))
    assert reader.read(0, len(values), None).to_arrow().equals(array), "it is not read back as it was written"
    (record,) = reader.footer.pages
    file = fs.open("c.col")
    page = file.read_at(int(record["offset"]), int(record["stored"]))
    shown = [("layout", LAYOUTS[int(record["layout"])])]
    shown += [(field, str(record[field])) for field in ("width", "low", "high", "nulls") if record[field]]
    pieces = list(parts(type_, encoding, record, len(values), page))
    assert b"".join(data for _, data in pieces) == page
    for (data, _), alike in groupby(pieces, lambda piece: (piece[1], piece[0].split()[0] == "bit" or piece[0])):
        names = [name for name, _ in alike]
        name = names[0] if len(names) == 1 else f"{names[0]} to {names[-1].split()[1]}"
        shown.append((name, data.hex(" ")))
    if reader.footer.dictionary is not None:
        (of_dictionary,) = reader.footer.dictionary
        entries = file.read_at(int(of_dictionary["offset"]), int(of_dictionary["stored"]))
        offsets = 4 * (reader.footer.entries + 1)
        shown += [("offsets of entries", entries[:offsets].hex(" ")), ("entries", entries[offsets:].hex(" "))]
    return "\n".join(f"{name:<10} {value}" for name, value in shown)


def test_pages_have_the_bytes_that_they_had(golden: Callable[[Path, Callable[[str], str]], None]) -> None:
    golden(SCRIPT, page_of)


def test_every_encoding_of_every_kind_of_type_has_an_example() -> None:
    heads = {tuple(line.partition(":")[0].split()) for line in SCRIPT.read_text(encoding="utf-8").splitlines()}
    wanted = {(name, e.value) for name, t in TYPES.items() for e in possible_encodings(t)}
    # Integers are alike whatever their width.
    assert {(name, encoding) for name, encoding in wanted if name not in ("BOOLEAN", "BIGINT")} <= heads
