"""The runbook of docs/operations.md: 23 situations with all their parts, each made by a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
RUNBOOK = TEXT.partition("\n## Runbook\n")[2].partition("\n## ")[0]
SITUATIONS = re.split(r"\n### (?=\d+\. )", RUNBOOK)[1:]


def test_situations_are_numbered() -> None:
    assert [int(text.partition(".")[0]) for text in SITUATIONS] == list(range(1, 24))


@pytest.mark.parametrize("text", SITUATIONS, ids=lambda text: text.partition("\n")[0])
def test_a_situation_is_described_and_made_by_a_test(text: str) -> None:
    for part in ("Sees", "Why", "Do"):
        assert re.search(rf"\*\*{part}\*\*:\s+\w", text.replace("`", "")), part
    ((name, file),) = re.findall(r"\*\*Tried by\*\*: (\w+) in `(tests/[\w/]+\.py)`", text)
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


QUOTED = {  # words of messages that an operator looks for, and the modules that have them
    "the log refuses writes until the disk accepts them, reads continue": "storage/log/wal.py",
    "has reached its quota": "storage/tables/quotas.py",
    "rows in memory to be flushed: store_memory is full": "storage/maintenance/memory.py",
    "rows cannot be flushed": "storage/maintenance/memory.py",
    "is in quarantine, all others work": "storage/tablet/damaged_tablet.py",
    "restore the catalog from a backup": "storage/tables/durable_catalog.py",
    "writes over several tablets are refused until the commit log is restored": "storage/log/commit_log.py",
    "the other side speaks version": "net/frames.py",
}


@pytest.mark.parametrize("words", QUOTED)
def test_quoted_messages_are_those_of_the_code(words: str) -> None:
    assert words in re.sub(r"\s+", " ", RUNBOOK)
    assert words in (ROOT / QUOTED[words]).read_text(encoding="utf-8")
