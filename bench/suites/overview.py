"""Saved results of suites as one section of Markdown: `python -m nyala.bench.suites.overview RESULT.json ...`.

For docs/benchmarks.md: a line per suite, and the queries that take more processor time than DuckDB by a quarter. Of
suites in several files the last counts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..report.cells import geometric_mean
from ..report.markdown import grid_lines
from ..report.model import Cell, Grid
from ..report.records import machine_in_words
from .command import read_saved
from .model import REFERENCE, US
from .report import Data, ratios, summary

SLOW: Final = 1.25
"""Ratio of processor time above which a query is listed."""


def overview(suites: Mapping[str, Data]) -> list[Grid]:
    """The tables: all suites, and their slow queries."""
    return [_suites_grid(suites), _slow_grid(suites)]


def _suites_grid(suites: Mapping[str, Data]) -> Grid:
    rows: list[Sequence[Cell]] = []
    for name, data in suites.items():
        found = summary(data)
        above = sum(ratio > 2 for ratio in ratios(data, REFERENCE, "cpu").values())
        rows.append((name, data["size"], found.n, found.cpu, found.worst, found.worst_query, found.wins, above))
    every = [ratio for data in suites.values() for ratio in ratios(data, REFERENCE, "cpu").values()]
    rows.append(
        ("all", "", len(every), geometric_mean(every), None, "", sum(r < 1 for r in every), sum(r > 2 for r in every))
    )
    columns = ["suite", "data", "queries", "geometric mean", "worst", "of query", "below 1", "above 2"]
    return Grid("Processor time of nyala over DuckDB's own tables", columns, rows)


def _slow_grid(suites: Mapping[str, Data]) -> Grid:
    rows: list[Sequence[Cell]] = []
    for name, data in suites.items():
        slow = {query: value for query, value in ratios(data, REFERENCE, "cpu").items() if value > SLOW}
        for query in sorted(slow, key=lambda each: -slow[each]):
            times = (1e3 * data["queries"][query][engine]["cpu"] for engine in (US, REFERENCE))
            rows.append((name, query, *times, slow[query]))
    columns = ["suite", "query", "nyala, ms", "DuckDB, ms", "ratio"]
    return Grid(f"Queries above {SLOW:g}, processor time of a warm run", columns, rows)


def lines(suites: Mapping[str, Data], machines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The Markdown: how it was measured, then the tables."""
    said = {machine_in_words({key: value for key, value in machine.items() if key != "load"}) for machine in machines}
    versions = {version: None for data in suites.values() for version in data["versions"].values()}
    runs = sorted({data["runs"] for data in suites.values()})
    yield (
        f"Processor time of all threads of the process, medians of {' or '.join(map(str, runs))} warm runs, on "
        f"{'; '.join(sorted(said))}; {', '.join(versions)}."
    )
    for grid in overview(suites):
        yield ""
        yield from grid_lines(grid)


def main(paths: Sequence[str]) -> int:
    """Print the section for the files that `nyala bench suites --json` wrote."""
    suites: dict[str, Data] = {}
    machines = []
    for path in map(Path, paths):
        suites.update(read_saved(path))
        machines.append(json.loads(path.read_text(encoding="utf-8"))["machine"])
    print("\n".join(lines(suites, machines)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
