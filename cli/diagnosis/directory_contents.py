"""The state of a directory, read without opening its store: files, definitions without values, tablets, logs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import OperationalError
from ...model.clock import format_timestamp
from ...model.partitions.partition import Partitioner
from ...model.store import Timestamp
from ...storage.files.filesystem import FileSystem
from ...storage.files.os_filesystem import OsFileSystem
from ...storage.tables.catalog import Catalog, CatalogEntry
from ...storage.tablet.tablet_metadata import TabletMetadata
from .masking import mask_text

LOG_LINES = 500
"""Last lines of each log that are kept."""
_LOG_BYTES = 1 << 20
_SERVED_LOGS = 50


def read_directory(directory: Path) -> Iterator[tuple[str, Any]]:
    """Parts of the archive, by name: text, or plain data for JSON."""
    yield "files.txt", "\n".join(_files(directory)) + "\n"
    yield "disk.json", _disk(directory)
    format_ = directory / "FORMAT"
    yield (
        "format.txt",
        mask_text(format_.read_text(errors="replace")[:200]) if format_.exists() else "FORMAT is missing\n",
    )
    fs = OsFileSystem()
    if (directory / "catalog").exists():
        try:
            catalog = Catalog.read(fs, f"{directory}/catalog")
        except OperationalError as error:
            yield "tables.json", {"error": mask_text(str(error))}
        else:
            yield "tables.json", _tables(fs, str(directory), catalog)
    for number, path in enumerate(sorted(_logs(directory))[:_SERVED_LOGS]):
        yield f"logs/{number:02d}-{path.name}.txt", mask_text("\n".join(_tail(path))) + "\n"


def _files(directory: Path) -> Iterator[str]:
    """Size, time of the last change and path of every file."""
    for folder, folders, names in os.walk(directory):
        folders.sort()
        for name in sorted(names):
            path = Path(folder) / name
            try:
                status = path.lstat()
            except OSError as error:
                yield f"{'?':>15}  {'?':>20}  {path.relative_to(directory)}  ({error.strerror})"
                continue
            changed = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(status.st_mtime))
            yield f"{status.st_size:>15,}  {changed:>20}  {path.relative_to(directory)}"


def _disk(directory: Path) -> dict[str, int]:
    status = os.statvfs(directory)
    return {
        "bytes": status.f_blocks * status.f_frsize,
        "free_bytes": status.f_bavail * status.f_frsize,
        "inodes": status.f_files,
        "free_inodes": status.f_favail,
    }


def _tables(fs: FileSystem, directory: str, catalog: Catalog) -> dict[str, Any]:
    """Definitions without defaults, bounds of partitions and comments, which may be values of rows."""
    return {
        "version": catalog.version,
        "history_seconds": catalog.history_seconds,
        "undecided_commits": len(catalog.decided),
        "views": sorted(catalog.views),
        "tables": [_table(fs, directory, entry) for entry in catalog.entries.values()],
    }


def _table(fs: FileSystem, directory: str, entry: CatalogEntry) -> dict[str, Any]:
    table = entry.table
    return {
        "name": table.name,
        "id": table.id,
        "key": [column.name for column in table.schema.key],
        "columns": [
            {
                "id": column.id,
                "name": column.name,
                "type": str(column.type),
                "nullable": column.nullable,
                "encoding": None if column.encoding is None else column.encoding.value,
                "compression": None if column.compression is None else column.compression.value,
            }
            for column in table.schema.columns
        ],
        "partitions": len(Partitioner(table.schema, table.partitions).partitions),
        "tablets": [_tablet(fs, f"{directory}/tables/{table.id}/{id_}", id_) for id_ in entry.tablet_ids],
    }


def _tablet(fs: FileSystem, directory: str, tablet_id: str) -> dict[str, Any]:
    try:
        metadata = TabletMetadata.read(fs, directory, tablet_id)
    except OperationalError as error:
        return {"id": tablet_id, "error": mask_text(str(error))}
    return {
        "id": tablet_id,
        "replay_index": metadata.replay_index,
        "durable_index": metadata.durable_index,
        "log_index": metadata.log_index,
        "commit_index": metadata.commit_index,
        "last_load": metadata.last_load,
        "newest": format_timestamp(Timestamp(metadata.newest)) if metadata.newest else None,
        "history_from": metadata.ancient_history_mark,
        "log_bytes": sum(path.stat().st_size for path in Path(directory, "wal").glob("*.log")),
        "rowsets": [
            {
                "id": rowset.id,
                "rows": rowset.row_count,
                "bytes": rowset.data_bytes,
                "columns": len(rowset.column_files),
                "undo_files": len(rowset.undo_files),
                "redo_files": len(rowset.redo_files),
            }
            for rowset in metadata.rowsets
        ],
    }


def _logs(directory: Path) -> Iterator[Path]:
    """Logs of processes: that of the serving process, and those of servers of a local cluster."""
    for pattern in ("*.log", "*/*.log"):
        yield from (p for p in directory.glob(pattern) if p.is_file() and p.parent.name not in ("wal", "commits"))


def _tail(path: Path) -> list[str]:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - _LOG_BYTES))
        return file.read().decode("utf-8", "replace").splitlines()[-LOG_LINES:]
