"""Numbers, values and tables as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...errors import DataError
from ...model.keys.key_encoding import decode_key
from ...model.types import DataType, Kind

MAX_VALUE = 40
"""Characters of a value that are shown."""


def plural(count: int, one: str, many: str | None = None) -> str:
    """A number and what it counts.

    >>> plural(1, "row"), plural(1200, "row"), plural(2, "entry", "entries")
    ('1 row', '1,200 rows', '2 entries')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def format_bytes(size: int) -> str:
    """A size for people, in powers of 1,000.

    >>> format_bytes(999), format_bytes(12_345), format_bytes(64_000_000)
    ('999 bytes', '12.3 kB', '64.0 MB')
    """
    if size < 1000:
        return plural(size, "byte")
    amount = float(size)
    for unit in ("kB", "MB", "GB"):
        amount /= 1000
        if amount < 999.95:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1000:.1f} TB"


def value_text(type_: DataType, value: Any) -> str:
    """A physical value as one short word: texts in quotes, bytes as hexadecimal digits.

    >>> from nyala.model.types import BINARY, DATE, STRING
    >>> value_text(DATE, 1), value_text(STRING, "a\\nb"), value_text(BINARY, b"\\x00\\xff"), value_text(DATE, None)
    ('1970-01-02', "'a\\\\nb'", '00ff', 'NULL')
    """
    return NULL if value is None else python_text(type_, value if type_.is_text else type_.to_python(value))


def python_text(type_: DataType, value: Any) -> str:
    """`value_text` of a value as Arrow and Python have it."""
    if value is None:
        return NULL
    if type_.kind is Kind.BINARY:
        return shorten(bytes(value).hex())
    if type_.kind is Kind.STRING:
        return shorten(repr(value if isinstance(value, str) else bytes(value).decode(errors="replace")))
    return str(value)


NULL = "NULL"


def key_text(types: Sequence[DataType] | None, key: bytes) -> str:
    """An encoded key as its values; as hexadecimal digits where the types are not known or do not fit.

    >>> from nyala.model.types import INT, STRING
    >>> key_text((INT, STRING), bytes.fromhex("80000001 61")), key_text(None, b"ab")
    ("1, 'a'", '61 62')
    """
    if types is not None:
        try:
            return ", ".join(value_text(t, v) for t, v in zip(types, decode_key(types, key)))
        except (DataError, ValueError, OverflowError):
            pass
    return shorten(key.hex(" "))


def shorten(text: str, width: int = MAX_VALUE) -> str:
    """The text, or its start and `...`.

    >>> shorten("abcdefgh", 6)
    'abc...'
    """
    return text if len(text) <= width else text[: width - 3] + "..."


def table_lines(header: Sequence[str], rows: Iterable[Sequence[object]], left: Iterable[str] = ()) -> list[str]:
    """Aligned columns under a header; numbers get thousands separators. Columns named in `left` are flush left.

    >>> print("\\n".join(table_lines(["id", "name"], [(1, "x"), (1000, "yy")], left=["name"])))
       id  name
        1  x
    1,000  yy
    """
    cells = [list(header), *([f"{value:,}" if isinstance(value, int) else str(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    flush_left = [name in set(left) for name in header]
    return [
        "  ".join(c.ljust(w) if is_left else c.rjust(w) for c, w, is_left in zip(row, widths, flush_left)).rstrip()
        for row in cells
    ]
