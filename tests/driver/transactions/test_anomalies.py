"""The anomalies of the literature, each as a history of interleaved sessions, at both isolation levels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from interleaved_sessions import play

SCRIPTS = sorted((Path(__file__).parent / "anomalies").glob("*.txt"))
ALLOWED = {"g2_item_write_skew", "g2_phantom_write_skew", "read_only_anomaly"}
"""Under snapshot isolation; SERIALIZABLE allows none."""


@pytest.mark.parametrize("path", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_a_history_has_the_outcome_that_is_promised(golden, pytestconfig, path):
    if pytestconfig.getoption("--store") == "embedded":
        golden(path, play)
    else:
        check_outcome(path)


@pytest.mark.parametrize("path", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_several_tablets_have_the_same_outcome(path):
    check_outcome(path, "DISTRIBUTE BY HASH (id) INTO 3 BUCKETS")


def check_outcome(path: Path, *options: str) -> None:
    """Asserts that a script has the outcome in its file, but for the keys that refusals name."""
    block, _, approved = path.read_text(encoding="utf-8").partition("---\n")
    commands = "\n".join(line for line in block.splitlines() if not line.startswith("#"))
    assert without_keys(play(commands, *options)) == without_keys(approved)


def without_keys(outcome: str) -> list[str]:
    """The lines of an outcome. Which of several changed rows a refusal names depends on the store."""
    return re.sub(r"row with key \(id = \d+\)", "row with key (id = ?)", outcome).splitlines()


def test_snapshot_isolation_allows_write_skew_and_serializable_nothing():
    allowed = {"SNAPSHOT": set(), "SERIALIZABLE": set()}
    for path in SCRIPTS:
        for line in path.read_text(encoding="utf-8").splitlines():
            level, _, outcome = line.partition(": ")
            if level in allowed and outcome == "ALLOWED":
                allowed[level].add(path.stem)
    assert allowed == {"SNAPSHOT": ALLOWED, "SERIALIZABLE": set()}
