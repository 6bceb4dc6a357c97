"""Files of the benchmarks: saves results, and measures the size of a store."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path


def save_json(data: object, path: Path | None) -> None:
    """Writes the result to the file of `--json`, if there is one."""
    if path is not None:
        path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def disk_bytes(target: Path) -> int:
    """The bytes of a file, or of all files of a directory, which may change concurrently."""
    if target.is_file():
        return target.stat().st_size
    total = 0
    for directory, _, names in os.walk(target):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(directory, name).lstat().st_size
    return total
