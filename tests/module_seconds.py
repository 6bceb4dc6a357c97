"""The processor time of test modules, and which of them `make check` runs.

`tests/seconds.json` has the seconds of processor time that the tests of each module took in `make check`'s form:
without slow tests, with few examples. `make seconds` records it. The option `--check` leaves out each module of a room
that took more than `LIMIT`; a module without a record runs, and so do those directly in `tests/`, which hold all rooms
to the house rules. The check thus has most modules of each room, and costs less than `BUDGET`.

Time of child processes counts, of living ones too where the system has /proc. Processor time depends little on what
else the machine does; elapsed time would.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LIMIT = 1.6
"""Seconds of processor time that a module may take in `make check`."""
BUDGET = 200.0
"""Seconds that its modules may take together: less than three minutes on two cores, with lint, types and imports."""
STALE = 3.0
"""`make check` names the modules that took more than this multiple of `LIMIT`."""
TESTS = Path(__file__).parent
RECORD = TESTS / "seconds.json"
PROPERTY = "processor seconds"


def recorded() -> dict[str, float]:
    """Seconds by module, a path below the repository's root."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def chosen(seconds: dict[str, float]) -> dict[str, float]:
    """The part of a record that `make check` runs."""
    return {module: taken for module, taken in seconds.items() if taken <= LIMIT or room(module) is None}


def room(module: str) -> str | None:
    """The folder of a module below `tests/`; None if it is directly there."""
    return parts[1] if len(parts := Path(module).parts) > 2 else None


def processor_seconds() -> float:
    """Processor time of this process, of its children that have ended and of those that live."""
    return sum(os.times()[:4]) + _living(os.getpid())


def _living(process: int) -> float:
    """Seconds of the living descendants of a process. A child is listed with the thread that started it."""
    seconds = 0.0
    for task in _listed(f"/proc/{process}/task"):
        for child in _read(f"/proc/{process}/task/{task}/children").split():
            # After the name, which may contain anything: user, system and those of ended children are fields 14 to 17.
            ticks = _read(f"/proc/{child}/stat").rpartition(")")[2].split()[11:15]
            seconds += sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK") + _living(int(child))
    return seconds


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names are all that is needed
    except OSError:
        return []  # no /proc, or ended meanwhile


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""  # ended meanwhile


def add_options(parser: pytest.Parser) -> None:
    """The options of pytest that this module implements."""
    parser.addoption("--check", action="store_true", help=f"leave out modules that take more than {LIMIT} s")
    parser.addoption("--record-seconds", action="store_true", help=f"write {RECORD.name} at the end")
    parser.addoption("--by-folder", action="store_true", help="list the processor time of folders and costly modules")


class ModuleSeconds:
    """A pytest plugin that measures modules, and leaves out or records what the options say.

    Each worker of pytest-xdist measures its tests, those of a module together; the reports take the figures to the
    controller.
    """

    def __init__(self, check: bool, record: bool, by_folder: bool = False) -> None:
        self._check = check
        self._record = record
        self._by_folder = by_folder
        self._left_out = recorded().keys() - chosen(recorded()).keys() if check else set()
        self._seconds: Counter[str] = Counter()
        self._last = 0.0
        self._ends_module = True
        """The test that runs is the last of its module, of those in a row."""

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        # pytest does not call this for paths of the command line: what is named there runs.
        return True if _name(collection_path) in self._left_out else None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        self._last = processor_seconds()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        # Each measurement reads a file for every thread of this process and of its children, 4 ms where servers run.
        self._ends_module = nextitem is None or nextitem.path != item.path

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[Any]:
        report = yield
        if call.when == "teardown" and self._ends_module:
            now = processor_seconds()
            report.user_properties.append((PROPERTY, now - self._last))
            self._last = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        taken = sum(float(str(value)) for name, value in report.user_properties if name == PROPERTY)
        self._seconds[report.nodeid.partition("::")[0]] += taken

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._seconds:
            return
        write = terminalreporter.write_line
        write(f"{sum(self._seconds.values()):.0f} s of processor time in {len(self._seconds)} modules")
        stale = [(taken, name) for name, taken in self._seconds.items() if taken > STALE * LIMIT and room(name)]
        for taken, module in sorted(stale, reverse=True) if self._check else ():
            write(f"  {module} took {taken:.1f} s; leave it out with `make seconds`, or make it cheaper")
        for line in listed(self._seconds) if self._by_folder else ():
            write(f"  {line}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._record and not hasattr(session.config, "workerinput"):
            RECORD.write_text(written({**recorded(), **self._seconds}), encoding="utf-8")


def listed(seconds: dict[str, float], most: int = 40) -> Iterator[str]:
    """Lines with the time of folders, `tests/ROOM` or `tests/ROOM/FOLDER`, and of the `most` costly modules."""
    folders: Counter[str] = Counter()
    for module, taken in seconds.items():
        folders["/".join(Path(module).parts[:3]).removesuffix(".py")] += taken
    for part in (folders, Counter(seconds)):
        yield from (f"{taken:6.1f} s  {name}" for name, taken in part.most_common(most))


def written(seconds: dict[str, float]) -> str:
    """The record as text, without modules that are gone."""
    kept = {module: round(taken, 1) for module, taken in sorted(seconds.items()) if (TESTS.parent / module).exists()}
    return json.dumps(kept, indent=0) + "\n"


def _name(path: Path) -> str:
    return path.relative_to(TESTS.parent).as_posix() if path.is_relative_to(TESTS.parent) else ""
