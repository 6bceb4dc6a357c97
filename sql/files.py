"""External files as the binder sees them. The binder opens none: the caller passes a `FileCatalog`."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Protocol

from ..model.lazy_dataclass import dataclass
from ..model.store import TableStatistics
from ..model.types import DataType


@dataclass(frozen=True, slots=True)
class FileSource:
    """Files that are read as one table: `paths` as they were written, each a file, a folder or a pattern."""

    format: str
    paths: tuple[str, ...]
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def shown(self) -> str:
        """The paths, for display."""
        return ", ".join(self.paths)


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column: `name` as in the file; `type` is None if nyala has no such type, and `described` then names it."""

    name: str
    type: DataType | None
    described: str = ""


@dataclass(frozen=True, slots=True)
class FileDescription:
    """Columns and statistics read from the files; statistics are keyed by the names in the file."""

    columns: tuple[FileColumn, ...]
    statistics: TableStatistics = field(default_factory=TableStatistics)
    is_counted: bool = False
    """True if the row count of the statistics is known, at least approximately."""


class FileCatalog(Protocol):
    """Looks up external files."""

    def describe(self, source: FileSource) -> FileDescription:
        """The columns of the files. Raises `OperationalError` if none match and `DataError` if they cannot be read."""
