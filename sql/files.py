"""External files as the binder sees them. It opens none: whoever binds statements hands it a `FileCatalog`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

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
        """The paths, for people."""
        return ", ".join(self.paths)


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column: `name` as in the file; `type` None where nyala has none for it, which is `described` then."""

    name: str
    type: DataType | None
    described: str = ""


@dataclass(frozen=True, slots=True)
class FileDescription:
    """What a look at the files tells; statistics are by the names in the file."""

    columns: tuple[FileColumn, ...]
    statistics: TableStatistics = field(default_factory=TableStatistics)
    is_counted: bool = False
    """Is the row count of the statistics known, at least about?"""


class FileCatalog(Protocol):
    """Where files are looked up."""

    def describe(self, source: FileSource) -> FileDescription:
        """The columns of the files. Raises `OperationalError` where there are none, `DataError` where they cannot be
        read."""
