"""Set-up for all tests: one copy of the package, and golden scripts."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import module_seconds
import nyala
import pytest
from examples import examples
from forked_processes import fork_servers
from golden import rewrite
from hypothesis import HealthCheck, settings
from long_tests import spread
from nyala.driver.stores.cluster_url import ENVIRONMENT
from nyala.executor.run import context

# The repository's root is the package. pytest sees the __init__.py there and would import it once more, under the name
# of the checkout's folder (of the file, where that is no name: `nyala-main`); every class would then exist twice, and
# `pytest.raises` would wait for the wrong one.
for name in (Path(nyala.__file__).parent.name, "__init__"):
    sys.modules.setdefault(name, nyala)

# Started in the background (`make test &`, nohup), a process ignores Ctrl-C and so do those it starts. Tests that send
# Ctrl-C to a child need one that listens.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Clusters of tests have TLS where the test says so.
for variable in ENVIRONMENT.values():
    os.environ.pop(variable, None)

TESTS = Path(__file__).parent
FIRST = ("spark", "cluster/tablets/test_transaction_schedules.py", "tpcds", "tpch")
"""Folders and modules that run before all others, after the tests of Spark's session."""
SPREAD = TESTS / "cluster" / "test_sql_suite.py"
"""A module whose tests take minutes each: every worker begins with one, but for the one that has Spark's session."""

# How long an example takes says something about the machine, nothing about the code. A run that decides whether a
# change is taken in tries the same examples each time; every other run tries new ones.
settings.register_profile(
    "nyala",
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
settings.load_profile("nyala")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden",
        choices=("check", "write"),
        default="check",
        help="write: save what golden scripts print now instead of comparing; review the difference",
    )
    parser.addoption(
        "--store",
        choices=("embedded", "served", "cluster"),
        default="embedded",
        help="the kind of store that SQL tests run on, see tests/store_option.py",
    )
    parser.addoption(
        "--store-gaps", action="store_true", help="run what is marked embedded_only alone, and list what passes"
    )
    parser.addoption("--store-replicas", type=int, choices=(1, 3), default=3, help="replicas of tablets of a cluster")
    module_seconds.add_options(parser)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Returns the number of workers of `-n auto`: for two processors, six, or three of `make check`. Four that wait for
    elections, leases and processes leave a third of the processors' time unused. The tests of `make check` do not wait,
    and each worker needs the time of a hundred of them to collect all."""
    processors = os.cpu_count() or 1
    return processors + 1 if config.getoption("--check") else processors * 3


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[Any]:
    """Modules and tests stay until the end, and are millions of objects: the garbage collector would visit them again
    and again while more are made, a seventh of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need Spark's session as slow: `make check` runs the other tests of tests/spark.

    Modules that are costly to start, or have tests of a minute, come first. pytest-xdist gives each worker a contiguous
    part of the list, and an idle worker the end of another's part: so Spark's session and the databases of TPC-H and
    TPC-DS are made in one worker, and no long test begins when the other workers have ended.
    """
    places: dict[Path, int] = {}
    for item in items:
        needs_spark = "spark" in getattr(item, "fixturenames", ())
        if needs_spark:
            item.add_marker(pytest.mark.slow)
        places[item.path] = min(places.get(item.path, len(FIRST)), 0 if needs_spark else _place(item.path))
    items.sort(key=lambda item: places[item.path])
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    items[:] = spread([i for i in items if i.path != SPREAD], [i for i in items if i.path == SPREAD], workers)


@cache
def _place(path: Path) -> int:
    return next((place for place, start in enumerate(FIRST) if path.is_relative_to(TESTS / start)), len(FIRST))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tests and modules stay until the end: the collector need not visit their objects, which are millions, each time
    that a test calls `gc.collect`."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    fork_servers()
    measured = [config.getoption(f"--{name}") for name in ("check", "record-seconds", "by-folder")]
    if any(measured):
        config.pluginmanager.register(module_seconds.ModuleSeconds(*measured))
    if (store := config.getoption("--store")) != "embedded":
        # Loads gRPC, which other runs leave to the tests that use it.
        from store_option import OtherStores

        stores = OtherStores(store, config.getoption("--store-gaps"), config.getoption("--store-replicas"))
        config.pluginmanager.register(stores)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Silences workers of pytest-xdist, which have reported everything by now. DuckDB's bindings would otherwise list
    leaked objects below the summary, which people and programs expect in the last line."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


@pytest.fixture(autouse=True)
def shared_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of tests are small; their statements are to run in several threads all the same."""
    monkeypatch.setattr(context, "WORTH_SHARING", 0.0)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, Callable[[str], str]], None]:
    """`golden(path, run)` plays the script at `path` through `run` and asserts that it prints what the file says."""

    def play(path: Path, run: Callable[[str], str]) -> None:
        expected = path.read_text(encoding="utf-8")
        actual = rewrite(expected, run)
        if request.config.getoption("--golden") == "write":
            path.write_text(actual, encoding="utf-8")
        else:
            assert actual == expected, f"{path.name} differs; if that is right: make golden"

    return play
