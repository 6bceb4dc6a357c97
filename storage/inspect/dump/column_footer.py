"""Footer of a column file, without a table that has its type."""

from __future__ import annotations

from ....model.codec.packing import unpack
from ....model.lazy_dataclass import dataclass
from ....model.types import DataType, Kind
from ...columns.column_file import HEADER, TAIL, check_footer, check_header, footer_size
from ...files.filesystem import FileSystem


@dataclass(frozen=True, slots=True)
class ColumnFileFacts:
    """Size and footer's place are in bytes; `version` is the format's."""

    size: int
    version: int
    footer_offset: int
    footer_bytes: int
    column: int
    type: DataType
    rows: int


def file_facts(fs: FileSystem, path: str) -> ColumnFileFacts:
    """Header and footer of a column file; `CorruptionError` where one of them is damaged."""
    file = fs.open(path)
    try:
        size = file.size
        head = file.read_at(0, HEADER.size)
        check_header(head, path)
        tail = file.read_at(max(size - TAIL.size, 0), TAIL.size)
        length = footer_size(tail, size, path)
        offset = size - TAIL.size - length
        data = file.read_at(offset, length)
    finally:
        file.close()
    check_footer(data, tail, path)
    fields = unpack(data)
    kind, precision, scale = fields["type"]
    type_ = DataType(Kind(kind), precision, scale)
    return ColumnFileFacts(size, HEADER.unpack(head)[1], offset, length, fields["column"], type_, fields["rows"])
