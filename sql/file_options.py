"""The options of external files, for read_csv, read_parquet and COPY: names, formats, and kinds of value."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, Final

from ..errors import StatementError, did_you_mean
from ..model.lazy_dataclass import dataclass

READ, WRITE = "read", "write"
FORMATS: Final = ("parquet", "csv")
_COMPRESSED: Final = {".gz": "gzip", ".zst": "zstd"}
"""The compression for the second suffix of a CSV file."""


@dataclass(frozen=True, slots=True)
class FileOption:
    """One option: the formats and uses that have it, and the conversion of a Python value or a word to its value."""

    name: str
    uses: frozenset[tuple[str, str]]
    value: Callable[[str, Any], Any]
    aliases: tuple[str, ...] = ()


def _switch(name: str, value: Any) -> bool:
    if value is None:
        return True
    words = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}
    text = str(value).lower()
    if text not in words:
        raise StatementError(f"option {name} is true or false")
    return words[text]


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise StatementError(f"option {name} needs a quoted text")
    return value


def _character(name: str, value: Any) -> str:
    if _text(name, value) == "\\t":
        return "\t"
    if len(value) != 1 or ord(value) > 127:
        raise StatementError(f"option {name} needs exactly one character (ASCII)")
    if value in "\n\r\0":
        raise StatementError(f"option {name} is no line end and no NUL")
    return str(value)


def _null(name: str, value: Any) -> str:
    if any(mark in _text(name, value) for mark in "\n\r"):
        raise StatementError(f"option {name} holds no line end")
    return str(value)


_ENCODINGS: Final = {"utf8": "utf-8", "unicode": "utf-8", "win1252": "cp1252", "windows-1252": "cp1252"}
"""Encodings with PostgreSQL names that Python lacks or spells differently."""


def _encoding(name: str, value: Any) -> str:
    given = _text(name, value).lower()
    encoding = re.sub(r"^win(\d{3,4})$", r"cp\1", _ENCODINGS.get(given, given))
    try:
        codec = codecs.lookup(encoding)
        "".encode(codec.name)  # raises for codecs that do not encode texts, such as zlib
    except (LookupError, ValueError):
        raise StatementError(
            f"option {name}: there is no encoding {value}; UTF8, LATIN1 and WIN1252 are some"
        ) from None
    return codec.name


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1 << 30:
        raise StatementError(f"option {name} is a whole number from 1 to {1 << 30:,}")
    return value


def _compression(name: str, value: Any) -> str:
    text = {"uncompressed": "none"}.get(str(value).lower(), str(value).lower())
    if text not in ("zstd", "snappy", "gzip", "none"):
        raise StatementError(f"option {name} is zstd, snappy, gzip or none")
    return text


def _uses(formats: str, when: str = "read write") -> frozenset[tuple[str, str]]:
    return frozenset((format_, use) for format_ in formats.split() for use in when.split())


OPTIONS: Final = {
    option.name: option
    for option in (
        FileOption("header", _uses("csv"), _switch),
        FileOption("delimiter", _uses("csv"), _character, ("delim", "sep")),
        FileOption("quote", _uses("csv"), _character),
        FileOption("escape", _uses("csv"), _character),
        FileOption("null", _uses("csv"), _null, ("nullstr",)),
        FileOption("encoding", _uses("csv", "read"), _encoding),
        FileOption("all_varchar", _uses("csv", "read"), _switch),
        FileOption("compression", _uses("csv") | _uses("parquet", "write"), _compression),
        FileOption("row_group_size", _uses("parquet", "write"), _count),
    )
}
"""All options by name."""
_BY_ALIAS: Final = {alias: option for option in OPTIONS.values() for alias in (option.name, *option.aliases)}


def read_option(given: str, value: Any, format_: str, use: str, what: str) -> tuple[str, Any]:
    """An option's name and its converted value; `what` is the statement or function, for errors."""
    known = [option.name for option in OPTIONS.values() if (format_, use) in option.uses]
    option = _BY_ALIAS.get(given.lower())
    if option is not None and (format_, use) not in option.uses:
        other = "csv" if format_ == "parquet" else "parquet"
        if (other, use) in option.uses:
            raise StatementError(f"option {option.name} is for {_SHOWN[other]} files only")
        raise StatementError(f"option {option.name} is for {'writing' if use == READ else 'reading'} files only")
    if option is None:
        hint = did_you_mean(given.lower(), known, "it has") if known else f"; it has none for {_SHOWN[format_]} files"
        raise StatementError(f"{what} has no option {given.lower()}{hint}")
    return option.name, option.value(option.name, value)


def check_options(options: Mapping[str, Any], format_: str, what: str) -> None:
    """Rejects contradictory options of a CSV file, with which a text would be ambiguous."""
    if format_ != "csv":
        return
    if options.get("compression") == "snappy":
        raise StatementError(f"{what}: the compression of a CSV file is zstd, gzip or none")
    delimiter, quote, null = options.get("delimiter", ","), options.get("quote", '"'), options.get("null", "")
    escape = options.get("escape", quote)
    if delimiter in (quote, escape):
        other = "quote" if delimiter == quote else "escape"
        raise StatementError(f"{what}: the options delimiter and {other} are both {delimiter!r}")
    for name, mark in (("delimiter", delimiter), ("quote", quote)):
        if mark in null:
            raise StatementError(f"{what}: the option null, {null!r}, holds the {name} {mark!r}")


_SHOWN: Final = {"csv": "CSV", "parquet": "Parquet"}


def format_of(path: str) -> str | None:
    """The format by a file's suffix; None if the suffix is not known.

    >>> format_of("a/b.parquet"), format_of("c*.csv.gz"), format_of("d.txt")
    ('parquet', 'csv', None)
    """
    name = PurePath(path)
    if name.suffix in _COMPRESSED:
        name = name.with_suffix("")
    suffix = name.suffix.removeprefix(".").lower()
    return suffix if suffix in FORMATS else None


def compression_of(path: str) -> str:
    """The compression by a CSV file's suffix: gzip, zstd or none."""
    return _COMPRESSED.get(PurePath(path).suffix, "none")
