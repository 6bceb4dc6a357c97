"""The statements that dbt sends for the project of `test_dbt`: captured from an audit log, and kept in a golden file.

-- client 2         a connection; its number counts from the first one
BEGIN
                    an empty line ends a statement
select ...
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

GOLDEN = Path(__file__).parent / "doors" / "postgres" / "golden" / "dbt_statements.txt"
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_SUFFIX = re.compile(r"__dbt_tmp\d+")
"""Names of temporary tables end in the time."""
_CLIENT = "-- client "


def captured(audit: Path) -> list[tuple[int, str]]:
    """The statements in an audit log, each with the number of its client; without dbt's comments."""
    clients: dict[int, int] = {}
    found = []
    for line in audit.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["event"] == "statement":
            client = clients.setdefault(event["session"], len(clients) + 1)
            text = _SUFFIX.sub("__dbt_tmp0", _COMMENT.sub("", event["statement"]))
            found.append((client, "\n".join(part.strip() for part in text.splitlines() if part.strip())))
    return found


def write(path: Path, statements: Sequence[tuple[int, str]]) -> None:
    """Writes a golden file."""
    parts, last = [], 0
    for client, text in statements:
        parts.append(text if client == last else f"{_CLIENT}{client}\n{text}")
        last = client
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def read(path: Path) -> Iterator[tuple[int, str]]:
    """The statements of a golden file, each with the number of its client."""
    client = 0
    for part in path.read_text(encoding="utf-8").strip().split("\n\n"):
        if part.startswith(_CLIENT):
            mark, _, part = part.partition("\n")
            client = int(mark.removeprefix(_CLIENT))
        yield client, part
