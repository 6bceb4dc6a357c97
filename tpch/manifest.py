"""What a loaded database says of itself: `tpch.json` in its directory, written last, so that it marks a whole load."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ..errors import OperationalError

NAME = "tpch.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """`data` is the directory of the Parquet files the rows came from; `rows` are counts per table."""

    scale_factor: float
    buckets: int
    data: str
    rows: dict[str, int]
    nyala: str
    """The version that loaded it."""

    def write(self, database: Path) -> None:
        """Leave it in the database's directory, whole or not at all."""
        temporary = database / f"{NAME}.tmp"
        temporary.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        temporary.replace(database / NAME)


def read(database: Path) -> Manifest:
    """The manifest of a loaded database; `OperationalError` says how to load where there is none."""
    path = database / NAME
    if not path.exists():
        raise OperationalError(
            f"{database} holds no TPC-H tables (there is no {NAME}); load them with: nyala tpch load --sf 1 {database}"
        )
    try:
        return Manifest(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise OperationalError(f"{path} is not what nyala wrote: {error}; load the tables again") from error
