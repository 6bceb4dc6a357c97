"""`nyala bench all`: every benchmark, one after the other, and the report.

    OUT/
      NAME.json, NAME.log   result and output of each benchmark
      index.html            the report, a self-contained page
      benchmarks.md         the same as Markdown
      work/                 the data during the run; see `report.runner`

A run that was interrupted continues: finished benchmarks are not repeated. The report has everything that is in OUT,
also results of earlier runs.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from ..errors import InterfaceError, OperationalError, did_you_mean
from . import postgres
from .report import records
from .report.assembled import Report, counted, entry
from .report.markdown import markdown
from .report.page import page
from .report.runner import Runner
from .report.suite import SUITE, Benchmark, Settings

QUICK_SCALE_FACTOR = 0.01


def all_command(arguments: argparse.Namespace, suite: Sequence[Benchmark] = SUITE) -> int:
    """Runs the selected benchmarks and writes the report; returns 1 if a benchmark failed."""
    chosen = choose(suite, arguments.only, arguments.skip)
    out = arguments.out.resolve()
    work = (arguments.work_dir or out / "work").resolve()
    sf = arguments.sf or (QUICK_SCALE_FACTOR if arguments.quick else 1.0)
    for place in (out, work):
        place.mkdir(parents=True, exist_ok=True)
    kudu = arguments.kudu.resolve() if arguments.kudu else None
    settings = Settings(sf, os.cpu_count() or 1, work, arguments.quick, arguments.records, kudu, arguments.seconds)
    runner = Runner(out, settings, records.versions(_postgresql()), 60 * arguments.limit, _say)
    failed = 0
    with _ended_by_sigterm():
        for number, benchmark in enumerate(chosen, 1):
            print(f"[{number}/{len(chosen)}] {benchmark.name}", flush=True)
            failed += runner.run(benchmark, arguments.again).status == "failed"
            write_report(out, suite)  # after each, to be readable during the others
    report = write_report(out, suite)
    if not arguments.keep:
        runner.remove_data()
    met, asked = counted(report)
    print(f"{met} of {asked} targets met, {failed} benchmarks failed; {out / 'index.html'}")
    return int(failed > 0)


def _say(text: str) -> None:
    print(f"    {text}", flush=True)


def choose(suite: Sequence[Benchmark], only: str | None, skip: str | None) -> list[Benchmark]:
    """The benchmarks selected by --only and --skip, in the suite's order.

    Raises
    ------
    InterfaceError
        If there is no benchmark of a name, or none is left.
    """
    known = [benchmark.name for benchmark in suite]
    wanted, unwanted = (_names(text, known) for text in (only, skip))
    chosen = [one for one in suite if (only is None or one.name in wanted) and one.name not in unwanted]
    if not chosen:
        raise InterfaceError("--only and --skip leave no benchmark")
    return chosen


def _names(text: str | None, known: Sequence[str]) -> set[str]:
    names = {name.strip() for name in (text or "").split(",") if name.strip()}
    for name in sorted(names):
        if name not in known:
            raise InterfaceError(f"there is no benchmark {name!r}{did_you_mean(name, known)}")
    return names


def write_report(out: Path, suite: Sequence[Benchmark]) -> Report:
    """Writes both pages, with every result in the directory."""
    entries, left_out = [], []
    for benchmark in suite:
        record = records.read(out / f"{benchmark.name}.json")
        if record is None:
            left_out.append(benchmark.name)
        else:
            entries.append(entry(record, benchmark.section))
    report = Report(entries, left_out)
    (out / "index.html").write_text(page(report), encoding="utf-8")
    (out / "benchmarks.md").write_text(markdown(report), encoding="utf-8")
    return report


def _postgresql() -> str | None:
    """The version of the installed server; None if there is none."""
    try:
        return postgres.PostgresServer.version().removeprefix("PostgreSQL ")
    except (OperationalError, OSError, subprocess.CalledProcessError):
        return None


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Handles SIGTERM like Ctrl-C within the block, so that the running benchmark ends with this process."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
