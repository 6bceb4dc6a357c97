"""Sections of the benchmarks of the storage engine, of single rows and of background work, from their saved data.

Every function takes the JSON of its benchmark and returns its `Section`; `sections_sql` and `sections_cluster` hold the
others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from .cells import at_least, at_most, median, ratio, shown
from .model import Cell, Chart, Grid, Section, Target

NAMES: Final = {"nyala": "nyala", "sqlite": "SQLite", "duckdb": "DuckDB"}
"""The engines' names in the report."""
LOAD_AT_MOST: Final = 2.0
"""Maximum ratio to DuckDB's seconds."""
_LOADED: Final = (("time", "seconds", 1.0, "s"), ("peak memory", "peak_memory", 1e6, "MB"), ("disk", "disk", 1e6, "MB"))


def load(data: Mapping[str, Any]) -> Section:
    """The section of `nyala bench load`."""
    middle = {
        engine: {field: median(run[field] / divisor for run in runs) for _, field, divisor, _ in _LOADED}
        for engine, runs in data.items()
    }
    ours, theirs = middle["nyala"], middle["duckdb"]
    rows = data["nyala"][0]["rows"]
    cells = [
        (f"{name}, {unit}", ours[field], theirs[field], ratio(ours[field], theirs[field]))
        for name, field, _, unit in _LOADED
    ]
    speeds: list[Sequence[Cell]] = [
        (NAMES[engine], number, *(run[field] / divisor for _, field, divisor, _ in _LOADED))
        for engine, runs in data.items()
        for number, run in enumerate(runs, 1)
    ]
    return Section(
        "load",
        "Bulk load",
        f"TPC-H's lineitem, {rows:,} rows, is loaded from one Parquet file into a table of nyala with its primary key, "
        "and into a file of DuckDB by CREATE TABLE AS, which makes no key. Runs alternate, each in a separate process "
        "whose peak memory is reported. Both end with everything durable.",
        [
            Grid("Medians", ("", "nyala", "DuckDB", "nyala / DuckDB"), cells),
            Grid("Every run", ("engine", "run", *(f"{name}, {unit}" for name, _, _, unit in _LOADED)), speeds),
        ],
        [Chart("Load (less is better)", unit="s", groups=["time"], series=_series(middle, ["seconds"]))],
        [at_most("time of a bulk load / DuckDB's", LOAD_AT_MOST, ratio(ours["seconds"], theirs["seconds"]), "x")],
    )


def _series(middle: Mapping[str, Mapping[str, float | None]], fields: Sequence[str]) -> dict[str, list[float | None]]:
    return {NAMES.get(engine, engine): [found[field] for field in fields] for engine, found in middle.items()}


def storage(data: Sequence[Mapping[str, Any]]) -> Section:
    """The section of `nyala bench storage`."""
    rows: list[Sequence[Cell]] = [
        (one["name"], one["ours"], one["theirs"], one["unit"], one["peer"] or None, one["ratio"], one["wanted"] or None)
        for one in data
    ]
    scans = [one for one in data if one["unit"] == "ms"]
    return Section(
        "storage",
        "The storage engine alone",
        "Loads, scans and updates of lineitem without SQL, with the same number of threads on both sides; scans are "
        "medians of warm runs. The load is from one Arrow table in memory, compared with DuckDB's CREATE TABLE AS into "
        "a file. Scans evaluate the predicates of TPC-H's Q6 and its sum, or read four numeric columns in full, "
        "compared with pyarrow.dataset over one Parquet file with Snappy. Updates go through the log and the delta "
        "stores; their cost is the ratio of a scan after them to the same scan before them.",
        [Grid("Measured", ("", "nyala", "peer", "unit", "peer's name", "ratio", "required"), rows)],
        [
            Chart(
                "Scans (less is better)",
                "ms",
                [one["name"] for one in scans],
                {"nyala": [one["ours"] for one in scans], "peer": [one["theirs"] for one in scans]},
            )
        ],
        [target for one in data if (target := _wanted(one)) is not None],
    )


_WANTED: Final = re.compile(r"(at most|at least|under) ([\d,.]+)(x?)")


def _wanted(measure: Mapping[str, Any]) -> Target | None:
    """The target in a measure's text: "at most 2x" applies to its ratio, "at least 250,000" to its number."""
    found = _WANTED.match(measure["wanted"])
    if found is None:
        return None
    limit, is_ratio = float(found[2].replace(",", "")), found[3] == "x"
    number = (measure["ratio"] if is_ratio else measure["ours"]) or None  # 0 of too few rows for a batch
    what = f"storage: {measure['name']}" + (f" / {measure['peer']}" if is_ratio else "")
    make = at_least if found[1] == "at least" else at_most
    return make(what, limit, number, "x" if is_ratio else measure["unit"])


def points(data: Mapping[str, Any]) -> Section:
    """The section of `nyala bench points`."""
    steps = list(data["nyala"])
    return Section(
        "points",
        "Single rows of a large table",
        "Rows of lineitem in random order, each change a separate transaction: looked up, updated, upserted, inserted "
        "and deleted by primary key, without SQL on nyala's side (`Database.read_row`, `write_row`), by "
        'prepared statements on the others\'. nyala with durability "os" and SQLite in WAL mode with synchronous '
        "NORMAL promise the same; DuckDB syncs every commit, which cannot be switched off. One thread.",
        [_rates("Rows per second, medians", data, steps), _cpu_rates(data, steps)],
        [_rate_chart("Rows per second (more is better)", data, steps)],
    )


def driver(data: Mapping[str, Any]) -> Section:
    """The section of `nyala bench driver`."""
    from ..driver import IMPORT_SECONDS, TARGETS

    rates = data["rates"]
    steps = list(rates["nyala"])
    imports = list(data["imports"].items())
    targets = [
        at_least(f"PEP 249: {step}", wanted, median(rates["nyala"][step]["per_second"]), "per second")
        for step, wanted in TARGETS.items()
        if wanted and step in rates["nyala"]
    ]
    return Section(
        "driver",
        "Statements through PEP 249",
        "SQL by cursors: prepared look-ups and changes of single rows, each a separate transaction, a hundred "
        "thousand rows of parameters by `executemany`, and a hundred thousand rows of a result as tuples. nyala "
        'with durability "os" and SQLite in WAL mode with synchronous NORMAL promise the same; DuckDB syncs every '
        "commit and got fewer rows. One thread. The import is measured in separate processes.",
        [
            _rates("Statements per second; rows, of fetchall and executemany; medians", rates, steps),
            _cpu_rates(rates, steps),
            Grid("Import, processor time", ("", "s"), imports),
        ],
        [_rate_chart("Per second (more is better)", rates, steps)],
        [*targets, at_most("import nyala, processor time", IMPORT_SECONDS, data["imports"]["nyala"], "s")],
    )


def _rates(title: str, data: Mapping[str, Any], steps: Sequence[str], field: str = "per_second") -> Grid:
    engines = list(data)
    rows: list[Sequence[Cell]] = []
    for step in steps:
        found = [median(data[engine][step][field]) for engine in engines]
        rows.append((step, *found, *(ratio(found[0], theirs) for theirs in found[1:])))
    names = [NAMES.get(engine, engine) for engine in engines]
    return Grid(title, ("", *names, *(f"nyala / {name}" for name in names[1:])), rows)


def _cpu_rates(data: Mapping[str, Any], steps: Sequence[str]) -> Grid:
    return _rates("The same per second of processor time, background work included", data, steps, "per_cpu_second")


def _rate_chart(title: str, data: Mapping[str, Any], steps: Sequence[str]) -> Chart:
    series = {
        NAMES.get(engine, engine): [median(data[engine][step]["per_second"]) for step in steps] for engine in data
    }
    return Chart(title, "per second", steps, series)


def maintenance(data: Mapping[str, Sequence[Mapping[str, float]]]) -> Section:
    """The section of `nyala bench maintenance`."""
    rows: list[Sequence[Cell]] = [
        (
            name if not number else "",
            sample["seconds"] / 3600,
            sample["bytes"] / 1e9,
            int(sample["rowsets"]),
            sample["height"],
            sample["redo_files"],
            sample["space_amplification"],
            sample["write_amplification"],
        )
        for name, samples in data.items()
        for number, sample in enumerate(samples)
    ]
    last = {name: samples[-1] for name, samples in data.items() if samples}
    columns = ("workload", "hours", "GB", "rowsets", "height", "REDO files", "space x", "written x")
    written = [sample["write_amplification"] for sample in last.values()]
    most = f"{shown(max(written))} times" if written else "nothing"
    return Section(
        "maintenance",
        "Flushes and compactions, simulated",
        "The maintenance policies, simulated on a model of one tablet without rows, in seconds instead of hours. "
        "Height is the number of rowsets in which a random key may be. Space x is the ratio of bytes on disk to bytes "
        "of live rows. Written x is the ratio of bytes written by flushes and compactions to bytes that came in: at "
        f"the end at most {most}. The last line of each workload follows half an hour without writes.",
        [Grid("Samples", columns, rows)],
        [
            Chart(
                "At the end (less is better)",
                "times",
                list(last),
                {
                    "height": [sample["height"] for sample in last.values()],
                    "written x": [sample["write_amplification"] for sample in last.values()],
                },
            )
        ],
    )
