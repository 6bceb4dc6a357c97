"""The option `--store`: which tests are run on another store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import nyala
import pytest
import store_option
from engines_support import same_tables
from store_option import CLUSTER, SERVED, OtherStores, Reach

ROOT = Path(store_option.TESTS).parent


def opens() -> Any:
    return nyala.connect(":memory:")


def opens_elsewhere() -> Any:
    return duckdb.connect()


def by_a_helper() -> Any:
    return [opens() for _ in range(2)]


def by_a_module() -> Any:
    return same_tables({}, {})


def calls_itself(times: int) -> Any:
    return calls_itself(times - 1) if times else opens_elsewhere()


class Opens:
    def method(self) -> Any:
        return opens()


def by_a_class() -> Any:
    return Opens()


@pytest.mark.parametrize("function", [opens, by_a_helper, by_a_module, by_a_class])
def test_what_may_open_a_store(function: Any) -> None:
    assert Reach().opens(function)


@pytest.mark.parametrize("function", [opens_elsewhere, calls_itself, len, 7])
def test_what_opens_none(function: Any) -> None:
    assert not Reach().opens(function)


def _declared(kind: str, *marks: Any) -> list[str]:
    item: Any = SimpleNamespace(nodeid="test", iter_markers=lambda name: [mark.mark for mark in marks])
    return list(OtherStores(kind, gaps=False).declared(item))


def test_a_gap_is_of_all_stores_or_of_one() -> None:
    both, one = pytest.mark.embedded_only("why"), pytest.mark.embedded_only("why", CLUSTER)
    assert _declared(CLUSTER, both) == _declared(SERVED, both) == _declared(CLUSTER, one) == ["embedded only: why"]
    assert _declared(SERVED, one) == []


@pytest.mark.parametrize("mark", [pytest.mark.embedded_only(), pytest.mark.embedded_only("why", "elsewhere")])
def test_a_gap_has_a_reason_and_a_known_store(mark: Any) -> None:
    with pytest.raises(pytest.UsageError, match=r"test: embedded_only\("):
        _declared(SERVED, mark)


@pytest.mark.slow
def test_one_module_on_a_served_store() -> None:
    command = [sys.executable, "-m", "pytest", "--store=served", "-p", "no:randomly", "-n", "0"]
    module = "tests/driver/statements/test_altered_meanwhile.py"
    environment = {**os.environ, "NYALA_EXAMPLES": "0.05"}
    run = subprocess.run(
        [*command, module], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stdout
    assert "stores: served" in run.stdout
