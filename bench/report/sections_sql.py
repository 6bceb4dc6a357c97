"""Sections of planning and of TPC-H's queries, from the saved data of the benchmarks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from .cells import at_least, at_most, geometric_mean, ratio, times
from .model import Cell, Chart, Grid, Section, Target

US: Final = "nyala"
PLAN_MILLISECONDS: Final = 15.0
"""Maximum milliseconds from text to plan, for the slowest of TPC-H's queries."""
PREPARED_MICROSECONDS: Final = 20.0
MEAN_AT_MOST: Final = {"duckdb-parquet": 1.0, "pyarrow-parquet": 0.76, "datafusion-parquet": 0.5}
"""Maximum geometric mean of nyala's time over a peer's. The paper measured 0.76 against its own executor on Parquet."""
WORST_AT_MOST: Final = {"duckdb-parquet": 2.0}
SPARK_AT_LEAST: Final = 12.0
"""Minimum factor by which nyala is faster than Spark on Parquet."""
ON_SPARK_AT_MOST: Final = 1.2
"""Maximum geometric mean of Spark over nyala over Spark on Parquet."""
PEERS: Final = {
    "nyala": "nyala",
    "duckdb-parquet": "DuckDB on Parquet",
    "duckdb": "DuckDB's tables",
    "pyarrow-parquet": "nyala's executor on Parquet",
    "datafusion-parquet": "DataFusion on Parquet",
    "spark-parquet": "Spark on Parquet",
    "spark-nyala": "Spark over nyala",
}


def plan(data: Mapping[str, Any]) -> Section:
    """The section of `nyala bench plan`."""
    parts = ("parse", "bind", "plan")
    cold: list[Sequence[Cell]] = [
        (one["name"], *(1e3 * one[part] for part in parts), 1e3 * sum(one[part] for part in parts))
        for one in data["cold"]
    ]
    slowest = max((sum(one[part] for part in parts) for one in data["cold"]), default=None)
    prepared = [(one["name"], 1e6 * one["seconds"]) for one in data["prepared"]]
    targets = [
        at_most(
            "from text to plan, slowest of TPC-H", PLAN_MILLISECONDS, None if slowest is None else 1e3 * slowest, "ms"
        ),
        *(at_most(f"prepared, {name}", PREPARED_MICROSECONDS, micros, "µs") for name, micros in prepared),
    ]
    return Section(
        "plan",
        "Parsing and planning",
        "The cost of TPC-H's queries before execution: from the text, in a warm process; and prepared, when only the "
        "values are new (`row by key` is a look-up of one row, `plan` a query with a plan). The best of several rounds "
        "by processor time.",
        [
            Grid("From text to plan", ("query", *parts, "together"), cold, "ms"),
            Grid("Prepared, until it can be executed", ("statement", "µs"), prepared),
        ],
        [Chart("From text to plan (less is better)", "ms", [str(row[0]) for row in cold], _stacked(cold))],
        targets,
    )


def _stacked(cold: Sequence[Sequence[Cell]]) -> dict[str, Sequence[float | None]]:
    return {"together": [row[-1] if isinstance(row[-1], (int, float)) else None for row in cold]}


def tpch(data: Mapping[str, Any]) -> Section:
    """The section of `nyala tpch compare`."""
    peers = [name for name in data["versions"] if name != US]
    targets = [
        *(
            at_most(f"TPC-H: nyala / {PEERS.get(peer, peer)}, geometric mean", wanted, _mean(data, peer), "x")
            for peer, wanted in MEAN_AT_MOST.items()
            if peer in peers
        ),
        *(
            at_most(f"TPC-H: nyala / {PEERS.get(peer, peer)}, worst query", wanted, _worst(data, peer), "x")
            for peer, wanted in WORST_AT_MOST.items()
            if peer in peers
        ),
    ]
    if "spark-parquet" in peers:
        faster = ratio(1.0, _mean(data, "spark-parquet"))
        targets.append(at_least("TPC-H: times as fast as Spark on Parquet", SPARK_AT_LEAST, faster, "x"))
    text = (
        f"TPC-H at scale factor {data['scale_factor']:g}, {data['threads']} threads each: every engine runs every "
        f"query in turn, on the same data, once cold and then {times(data['runs'])} warm; the median of the warm runs "
        "counts. A result that differs from the others' has no time. nyala's executor on Parquet is the comparison of "
        "the paper's table 1: the same executor without the store."
    )
    text = " ".join([text, *_left_out(data), *_troubles(data)])
    return Section("tpch", "TPC-H", text, *_queries(data), [*targets, _equal(data)])


def spark_tpch(data: Mapping[str, Any]) -> Section:
    """The section of `nyala tpch compare --peers spark-nyala,spark-parquet`."""
    over, on = ("spark-nyala", "spark-parquet")
    ratios = []
    for query in data["queries"].values():
        engines = query["engines"]
        found = ratio(engines.get(over, {}).get("median"), engines.get(on, {}).get("median"))
        if found is not None:
            ratios.append(found)
    mean = geometric_mean(ratios)
    targets = [
        at_most("TPC-H on Spark: over nyala / on Parquet, geometric mean", ON_SPARK_AT_MOST, mean, "x"),
        at_least(
            "TPC-H: times as fast as Spark on Parquet", SPARK_AT_LEAST, ratio(1.0, _mean(data, "spark-parquet")), "x"
        ),
        _equal(data),
    ]
    text = (
        f"TPC-H at scale factor {data['scale_factor']:g} on Spark: over nyala's tables, compared with "
        "Spark on Parquet files of the same rows, and with nyala's own executor; one Spark session, engines in turn, "
        f"{data['threads']} threads, {times(data['runs'])} warm after a first run."
    )
    text = " ".join([text, *_left_out(data), *_troubles(data)])
    return Section("spark-tpch", "TPC-H on Spark", text, *_queries(data), targets)


def _queries(data: Mapping[str, Any]) -> tuple[list[Grid], list[Chart]]:
    """Medians, ratios and first runs; and the chart of the medians."""
    engines = list(data["versions"])
    peers = [name for name in engines if name != US]
    names = [PEERS.get(name, name) for name in engines]
    medians = {name: _times(data, name, "median") for name in engines}
    rows = [(f"Q{number}", *(medians[name][number] for name in engines)) for number in data["queries"]]
    rows.append(("geometric mean", *(_mean_time(medians[name]) for name in engines)))
    cold = {name: _times(data, name, "cold") for name in engines}
    ratios: list[Sequence[Cell]] = [
        (f"Q{number}", *(query["ratios"].get(peer) for peer in peers)) for number, query in data["queries"].items()
    ]
    ratios.append(("geometric mean", *(_mean(data, peer) for peer in peers)))
    firsts = [(f"Q{number}", *(cold[name][number] for name in engines)) for number in data["queries"]]
    firsts.append(("geometric mean", *(_mean_time(cold[name]) for name in engines)))
    means: list[Sequence[Cell]] = [
        (name, _mean_time(medians[key]), _mean(data, key), _mean_time(cold[key]))
        for key, name in zip(engines, names, strict=True)
    ]
    grids = [
        Grid("Geometric means", ("engine", "warm, ms", "nyala's warm time over it", "first run, ms"), means),
        Grid("Medians of warm runs", ("query", *names), rows, "ms"),
        Grid("nyala's time over the others' (below 1 nyala is faster)", ("query", *names[1:]), ratios),
        Grid("First runs", ("query", *names), firsts, "ms"),
    ]
    groups = [str(row[0]) for row in rows[:-1]] + ["mean"]
    series = {
        name: [*medians[key].values(), _mean_time(medians[key])] for key, name in zip(engines, names, strict=True)
    }
    return grids, [Chart("Medians of warm runs (less is better)", "ms", groups, series, "log")]


def _times(data: Mapping[str, Any], engine: str, measure: str) -> dict[str, float | None]:
    """Milliseconds by query."""
    found: dict[str, float | None] = {}
    for number, query in data["queries"].items():
        seconds = query["engines"].get(engine, {}).get(measure)
        found[number] = None if seconds is None else 1e3 * seconds
    return found


def _mean_time(times: Mapping[str, float | None]) -> float | None:
    return geometric_mean([one for one in times.values() if one])


def _mean(data: Mapping[str, Any], peer: str) -> float | None:
    found: float | None = data["ratios"].get(peer, {}).get("median")
    return found


def _worst(data: Mapping[str, Any], peer: str) -> float | None:
    ratios = [query["ratios"].get(peer) for query in data["queries"].values()]
    return max((one for one in ratios if one is not None), default=None)


def _equal(data: Mapping[str, Any]) -> Target:
    """The target that every engine returned every answer, and the same."""
    wrong = list(_troubles(data))
    said = "all are" if not wrong else f"{len(wrong)} are not"
    return Target(f"TPC-H: answers of {', '.join(data['versions'])} equal", "all", said, not wrong)


def _troubles(data: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each wrong answer or failure."""
    for number, query in data["queries"].items():
        for name, outcome in query["engines"].items():
            if trouble := outcome.get("wrong") or outcome.get("failed"):
                yield f"Q{number} of {PEERS.get(name, name)} went wrong: {trouble}."


def _left_out(data: Mapping[str, Any]) -> Iterator[str]:
    """Peers that did not take part, as sentences."""
    yield from (f"{PEERS.get(name, name)} is left out: {reason}." for name, reason in data["skipped"].items())
