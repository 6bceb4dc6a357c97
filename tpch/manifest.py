"""The manifest of a loaded database, written last, so that it marks a complete load.

It is `tpch.json` in its directory or, in a cluster, the table tpch_manifest.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from ..driver.connection import Connection, connect
from ..driver.stores.open_stores import is_cluster
from ..errors import OperationalError, UnknownTable
from ..model.lazy_dataclass import dataclass

NAME = "tpch.json"
TABLE = "tpch_manifest"

Target = Path | str
"""A directory, or the URL of a cluster."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest. `data` is the directory of the Parquet files that were loaded; `rows` are counts per table."""

    scale_factor: float
    buckets: int
    data: str
    rows: dict[str, int]
    nyala: str
    """The version that loaded it."""

    def write(self, database: Target, connection: Connection) -> None:
        """Writes it to the database, atomically."""
        text = json.dumps(asdict(self), indent=2)
        if is_cluster(database):
            connection.execute(f"CREATE TABLE {TABLE} (name STRING PRIMARY KEY, content STRING NOT NULL)")
            connection.execute(f"INSERT INTO {TABLE} VALUES (?, ?)", (NAME, text))
            return
        temporary = Path(database) / f"{NAME}.tmp"
        temporary.write_text(text + "\n", encoding="utf-8")
        temporary.replace(Path(database) / NAME)


def remove(database: Target, connection: Connection) -> None:
    """Removes it before the tables change that it certifies."""
    if is_cluster(database):
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
    else:
        (Path(database) / NAME).unlink(missing_ok=True)


def read(database: Target) -> Manifest:
    """The manifest of a loaded database; raises `OperationalError` with the load command if there is none."""
    text = _read_table(str(database)) if is_cluster(database) else _read_file(Path(database))
    if text is None:
        where = f"table {TABLE}" if is_cluster(database) else NAME
        raise OperationalError(
            f"{database} holds no TPC-H tables (there is no {where}); load them with: nyala tpch load --sf 1 {database}"
        )
    try:
        return Manifest(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise OperationalError(
            f"{NAME} of {database} was not written by nyala: {error}; load the tables again"
        ) from error


def _read_file(path: Path) -> str | None:
    return (path / NAME).read_text(encoding="utf-8") if (path / NAME).exists() else None


def _read_table(url: str) -> str | None:
    with connect(url) as connection:
        try:
            row = connection.execute(f"SELECT content FROM {TABLE} WHERE name = ?", (NAME,)).fetchone()
        except UnknownTable:
            return None
    return None if row is None else str(row[0])
