"""Lists the files of a source: Spark resolves paths, patterns and partition directories, without reading contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ....errors import InterfaceError, OperationalError
from ....model.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LISTING_OPTIONS: Final = ("basepath", "modifiedafter", "modifiedbefore", "pathglobfilter", "recursivefilelookup")
"""Options of Spark's readers that select files, in lower case."""
SUFFIXES: Final = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json",
    ".ndjson": "json",
}  # fmt: skip
COMPRESSED: Final = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")
_OF_LISTING: Final = ("path", "modificationTime", "length", "content")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file: its URI, its bytes, and the values from its partition directories, texts or None."""

    uri: str
    length: int
    partition: tuple[str | None, ...] = ()

    @property
    def name(self) -> str:
        """The path for display; for a local file without `file:`."""
        return path_of(self.uri)


@dataclass(frozen=True, slots=True)
class Listing:
    """Files by URI, and the columns of their partition directories."""

    files: tuple[SourceFile, ...]
    partition_columns: tuple[str, ...] = ()


def path_of(uri: str) -> str:
    """The path of a local file; another URI unchanged. Hadoop writes its URIs without escapes.

    >>> path_of("file:/in/a b.csv")
    '/in/a b.csv'
    """
    return uri.removeprefix("file:") if uri.startswith("file:/") else uri


def format_of_name(name: str | Path) -> str | None:
    """The format by the suffix of a name.

    >>> format_of_name("in/*.csv.gz")
    'csv'
    """
    suffixes = [suffix.lower() for suffix in Path(name).suffixes if suffix.lower() not in COMPRESSED]
    return SUFFIXES.get(suffixes[-1]) if suffixes else None


def list_files(spark: SparkSession, source: str, format: str, options: Mapping[str, str]) -> Listing:
    """The files matching a path or pattern.

    Raises
    ------
    OperationalError
        If there are none.
    InterfaceError
        If a directory below the source would be skipped, or a file has another format than the others.
    """
    chosen = {name: value for name, value in options.items() if name.lower() in LISTING_OPTIONS}
    found = spark.read.format("binaryFile").options(**chosen).load(source).drop("modificationTime", "content")
    partition = tuple(name for name in found.columns if name not in _OF_LISTING)
    files = [
        SourceFile(row["path"], row["length"], tuple(None if row[n] is None else str(row[n]) for n in partition))
        for row in found.collect()
    ]
    if not files:
        raise OperationalError(
            f"{source}: there is nothing to read (names that begin with _ or . are skipped, as in Spark)"
        )
    files.sort(key=lambda file: file.uri)
    _check_formats(files, format)
    if not any(name.lower() == "recursivefilelookup" for name in chosen):
        _check_folders(Path(source))
    return Listing(tuple(files), partition)


def _check_formats(files: Sequence[SourceFile], format: str) -> None:
    for file in files:
        told = format_of_name(file.name)
        if told not in (None, format):
            raise InterfaceError(
                f"{file.name}: by its name this is not a {format} file, although the source includes it; name the "
                "files by a pattern"
            )


def _check_folders(place: Path) -> None:
    """Raises `InterfaceError` for directories that Spark would skip: all except the source and partition
    directories."""
    if not place.is_dir():
        return
    folders = sorted(path for path in place.iterdir() if path.is_dir() and not path.name.startswith((".", "_")))
    for folder in folders:
        if "=" in folder.name:
            _check_folders(folder)
        elif any(path.is_file() for path in folder.rglob("*")):
            raise InterfaceError(
                f"{folder}: the files of this directory would not be read; add --option recursiveFileLookup=true to "
                "read all below the source, or name the files by a pattern"
            )
