"""Tables, charts and the report's section of suites, from their saved data.

A ratio is nyala's time over the other engine's, of the medians of warm runs; below 1 nyala is faster. A summary has the
geometric means over all queries of a suite that both engines answered, and answered alike; loading is not a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from ...model.lazy_dataclass import dataclass
from ..report.cells import at_most, geometric_mean, ratio, shown
from ..report.model import Cell, Chart, Grid, Section, Target
from .model import REFERENCE, US

LOAD: Final = "load"
"""The name of the step that is no query."""
NAMES: Final = {
    "nyala": "nyala",
    "duckdb": "DuckDB",
    "duckdb-merge": "DuckDB, MERGE",
    "duckdb-parquet": "DuckDB on Parquet",
    "sqlite": "SQLite",
    "deltalake": "delta-rs",
    "chdb": "chDB",
}
GOALS: Final[dict[str, tuple[float, float]]] = {
    "clickbench": (1.0, 3.0),
    "h2o": (1.2, 3.0),
    "ssb": (0.6, 3.0),
    "tpcds": (0.75, 2.0),
    "timeseries": (0.9, 2.5),
    "wide": (1.0, 3.0),
}
"""Maximum geometric mean, and maximum of a query, of nyala's processor time over DuckDB's own tables'."""

Data = Mapping[str, Any]
"""A suite's saved data: `SuiteResult.as_json`."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The ratios of a suite to one peer; None where there are none.

    Attributes
    ----------
    n, wins : int
        Queries with a ratio, and those of them with less processor time than the peer.
    wall, cpu, first : float, optional
        Geometric means of wall time, processor time, and wall time of the first runs.
    worst : float, optional
        The highest ratio of processor time, of the query `worst_query`.
    """

    n: int
    wins: int
    wall: float | None
    cpu: float | None
    first: float | None
    worst: float | None
    worst_query: str


def ratios(data: Data, peer: str, measure: str) -> dict[str, float]:
    """nyala's time over the peer's, by query; `measure` is "wall", "cpu", "first_wall" or "first_cpu"."""
    found = {}
    for query, engines in data["queries"].items():
        ours, theirs = engines.get(US), engines.get(peer)
        if query == LOAD or ours is None or theirs is None or ours["trouble"] or theirs["trouble"]:
            continue
        value = ratio(ours[measure], theirs[measure])
        if value:
            found[query] = value
    return found


def summary(data: Data, peer: str = REFERENCE) -> Summary:
    """The summary of a suite's ratios."""
    cpu = ratios(data, peer, "cpu")
    worst = max(cpu, key=lambda query: cpu[query], default="")
    wall, first = (geometric_mean(list(ratios(data, peer, measure).values())) for measure in ("wall", "first_wall"))
    wins = sum(value < 1 for value in cpu.values())
    return Summary(len(cpu), wins, wall, geometric_mean(list(cpu.values())), first, cpu.get(worst), worst)


def troubles(data: Data) -> Iterator[str]:
    """A sentence for each wrong answer or failure, and for each engine that is left out."""
    for engine, reason in data["left_out"].items():
        yield f"{data['name']}: {NAMES.get(engine, engine)} is left out: {reason}"
    for query, engines in data["queries"].items():
        for engine, timing in engines.items():
            if timing["trouble"]:
                yield f"{data['name']} {query}, {NAMES.get(engine, engine)}: {timing['trouble']}"


# ---- terminal --------------------------------------------------------------------------------------------------------


def show(suites: Mapping[str, Data], console: Console, before: Mapping[str, Data] | None = None) -> None:
    """Prints a table per suite and the summary; with `before`, the numbers of an earlier run beside them."""
    for name, data in suites.items():
        for grid in [*grids(data), *([_changes(data, before[name])] if before and name in before else [])]:
            _print(grid, console)
    _print(_summary_grid(suites, before), console)
    for data in suites.values():
        for trouble in troubles(data):
            console.print(trouble, highlight=False, markup=False)


def _print(grid: Grid, console: Console) -> None:
    table = Table(title=grid.title, title_justify="left")
    for number, column in enumerate(grid.columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=number == 0)
    for row in grid.rows:
        table.add_row(*(shown(cell) for cell in row))
    console.print(table)


# ---- grids -----------------------------------------------------------------------------------------------------------


def grids(data: Data) -> list[Grid]:
    """The tables of one suite: times and ratios by query, then other figures."""
    engines = list(data["versions"])
    peers = [engine for engine in engines if engine != US]
    columns = ["query"]
    for engine in engines:
        columns += [f"{NAMES.get(engine, engine)}, first", "wall", "cpu"]
    columns += [f"cpu / {NAMES.get(peer, peer)}" for peer in peers]
    found = [Grid(_title(data), columns, [_row(data, query, engines, peers) for query in data["queries"]])]
    if data["figures"]:
        rows = [(name, *(values.get(engine) for engine in engines)) for name, values in data["figures"].items()]
        names = [NAMES.get(engine, engine) for engine in engines]
        found.append(Grid(f"{data['name']}: figures", ["", *names], rows))
    return found


def _title(data: Data) -> str:
    return f"{data['name']}, {data['size']}, {data['threads']} threads, medians of {data['runs']} warm runs (ms)"


def _row(data: Data, query: str, engines: Sequence[str], peers: Sequence[str]) -> list[Cell]:
    timings = data["queries"][query]
    row: list[Cell] = [query]
    for engine in engines:
        timing = timings.get(engine) or {}
        for measure in ("first_wall", "wall", "cpu"):
            row.append(_milliseconds(timing, measure))
    ours = timings.get(US) or {}
    for peer in peers:
        theirs = timings.get(peer) or {}
        wrong = ours.get("trouble") or theirs.get("trouble")
        row.append(wrong.partition(":")[0] if wrong else ratio(ours.get("cpu"), theirs.get("cpu")))
    return row


def _milliseconds(timing: Mapping[str, Any], measure: str) -> float | None:
    seconds = timing.get(measure)
    return None if seconds is None else 1e3 * seconds


def _changes(data: Data, before: Data) -> Grid:
    """nyala's processor time and its ratio in two runs, side by side."""
    then, now = (ratios(one, REFERENCE, "cpu") for one in (before, data))
    rows: list[Sequence[Cell]] = []
    for query, engines in data["queries"].items():
        old = before["queries"].get(query, {}).get(US) or {}
        new = engines.get(US) or {}
        times = (_milliseconds(old, "cpu"), _milliseconds(new, "cpu"))
        rows.append((query, *times, ratio(times[1], times[0]), then.get(query), now.get(query)))
    columns = ["query", "before, cpu ms", "after, cpu ms", "after / before", "before / DuckDB", "after / DuckDB"]
    return Grid(f"{data['name']}: before and after", columns, rows)


def _summary_grid(suites: Mapping[str, Data], before: Mapping[str, Data] | None = None) -> Grid:
    columns = ["suite", "peer", "n", "wall", "cpu", "first run", "worst cpu", "of query", "wins"]
    rows = []
    for name, data in suites.items():
        for peer in (engine for engine in data["versions"] if engine != US):
            rows.append(_summary_row(name, peer, summary(data, peer)))
            if before and name in before and peer in before[name]["versions"]:
                rows.append(_summary_row(f"{name}, before", peer, summary(before[name], peer)))
    return Grid("nyala's time over the peers' (geometric means; below 1 nyala is faster)", columns, rows)


def _summary_row(name: str, peer: str, found: Summary) -> list[Cell]:
    means = (found.wall, found.cpu, found.first, found.worst)
    return [name, NAMES.get(peer, peer), found.n, *means, found.worst_query, f"{found.wins} of {found.n}"]


# ---- report ----------------------------------------------------------------------------------------------------------


def section(data: Mapping[str, Any]) -> Section:
    """The section of `nyala bench suites`."""
    suites: Mapping[str, Data] = data["suites"]
    tables = [_summary_grid(suites)]
    charts = [_summary_chart(suites)]
    for one in suites.values():
        tables += grids(one)
        charts.append(_chart(one))
    descriptions = [f"{one['title']}: {one['text']}" for one in suites.values()]
    text = (
        "Queries that nyala was not tuned for, on generated data: every engine runs every query in turn in one "
        "process, once and then warm; answers are compared with DuckDB's, order-insensitive unless ORDER BY decides, "
        "doubles to nine digits. cpu is the processor time of all threads."
    )
    said = [trouble for one in suites.values() for trouble in troubles(one)]
    return Section(
        "suites", "Suites of queries", " ".join([text, *descriptions, *said]), tables, charts, _targets(suites)
    )


def _summary_chart(suites: Mapping[str, Data]) -> Chart:
    found = [summary(data) for data in suites.values()]
    series = {"wall": [one.wall for one in found], "cpu": [one.cpu for one in found]}
    return Chart("nyala's time over DuckDB's, geometric means (less is better)", "x", list(suites), series)


def _chart(data: Data) -> Chart:
    engines = list(data["versions"])
    queries = list(data["queries"])
    series = {
        NAMES.get(engine, engine): [_milliseconds(data["queries"][query].get(engine) or {}, "cpu") for query in queries]
        for engine in engines
    }
    return Chart(f"{data['name']}, processor time (less is better)", "ms", queries, series, "log")


def _targets(suites: Mapping[str, Data]) -> list[Target]:
    targets = []
    for name, data in suites.items():
        if REFERENCE not in data["versions"]:
            continue
        found = summary(data)
        if name in GOALS:
            mean, worst = GOALS[name]
            targets.append(at_most(f"{name}: cpu / DuckDB, geometric mean", mean, found.cpu, "x"))
            targets.append(at_most(f"{name}: cpu / DuckDB, worst query", worst, found.worst, "x"))
        wrong = sum(bool(engines.get(US, {}).get("trouble")) for engines in data["queries"].values())
        said = "all are" if not wrong else f"{wrong} are not"
        targets.append(Target(f"{name}: answers equal to DuckDB's", "all", said, not wrong))
    return targets
