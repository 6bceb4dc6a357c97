"""Sections of the benchmarks of the cluster and of Spark, from their saved data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .cells import at_least, at_most, geometric_mean, median, ratio
from .model import Cell, Chart, Grid, Section, Target


def cluster(data: Mapping[str, Any]) -> Section:
    """The section of `nyala bench cluster` without a directory."""
    from ..cluster import BATCH_ROWS, CLIENTS, RESUME_SECONDS, TARGETS

    rates = data["rates"]
    steps = list(rates["cluster"])
    middle = {store: {step: median(rates[store][step]) for step in steps} for store in ("cluster", "embedded")}
    rows: list[Sequence[Cell]] = [
        (
            step,
            middle["cluster"][step],
            middle["embedded"][step],
            ratio(middle["cluster"][step], middle["embedded"][step]),
            TARGETS.get(step),
        )
        for step in steps
    ]
    resumed = data["resumed"]
    targets = [
        at_least(f"cluster: {step}", wanted, middle["cluster"].get(step), "per second")
        for step, wanted in TARGETS.items()
    ]
    slowest = max(resumed, default=None)
    targets.append(at_most("cluster: from a leader's SIGKILL to the next write, slowest", RESUME_SECONDS, slowest, "s"))
    return Section(
        "cluster",
        "A replicated cluster",
        "Three tablet servers and a master on this machine, with their default options and every row on all three, "
        "compared with the embedded store in the same run with the same durability; "
        f"{CLIENTS} client threads, each with its own connection. Ingest writes batches of {BATCH_ROWS:,} rows by "
        "sessions; the other steps are statements of one row. A write is acknowledged when a majority has it in its "
        "log. Servers and clients share the processors. At the end the leader of a table's only tablet is killed "
        "(SIGKILL), and the time until the next acknowledged write is measured.",
        [
            Grid(
                "Medians, rows or statements per second",
                ("", "cluster", "embedded", "cluster / embedded", "required"),
                rows,
            ),
            Grid("From a leader's SIGKILL to the next write", ("round", "s"), list(enumerate(resumed, 1))),
        ],
        [
            Chart(
                "Per second (more is better)",
                "per second",
                steps,
                {store: list(found.values()) for store, found in middle.items()},
            )
        ],
        targets,
    )


def cluster_tpch(data: Mapping[str, Any]) -> Section:
    """The section of `nyala bench cluster DIR`."""
    from ..cluster_queries import MOST_RATIO, WARM_UPS

    rows: list[Sequence[Cell]] = []
    ratios: dict[str, float] = {}
    for query in data["queries"]:
        ours, theirs = (median(1e3 * seconds for seconds in query[side]) for side in ("cluster", "embedded"))
        found = ratio(ours, theirs)
        if found is not None:
            ratios[query["name"]] = found
        rows.append((query["name"].upper(), ours, theirs, found))
    other = [query["name"].upper() for query in data["queries"] if not query["is_equal"]]
    mean = geometric_mean(list(ratios.values()))
    rows.append(("geometric mean", None, None, mean))
    worst = max(ratios, key=lambda name: ratios[name], default=None)
    slow = sum(one > MOST_RATIO for one in ratios.values())
    series = {
        "cluster": [_number(row[1]) for row in rows[:-1]],
        "embedded": [_number(row[2]) for row in rows[:-1]],
    }
    rate = ratio(data["rows"], data["load_seconds"])
    return Section(
        "cluster-tpch",
        "TPC-H on a cluster",
        "A cluster of three servers, with their default options, is loaded with TPC-H's tables "
        f"({data['rows']:,} rows with three replicas in {data['load_seconds']:.1f} s, {rate or 0:,.0f} rows/s), and "
        "runs the queries, alternating with the embedded store on the same machine. Both sides run each query "
        f"{WARM_UPS} times before it is timed. "
        + (f"Other rows than embedded: {', '.join(other)}." if other else "All answers are the same."),
        [Grid("Medians", ("query", "cluster, ms", "embedded, ms", "cluster / embedded"), rows)],
        [Chart("Medians (less is better)", "ms", [str(row[0]) for row in rows[:-1]], series, "log")],
        [
            at_most(
                f"TPC-H on a cluster / embedded, worst query ({worst.upper() if worst else 'none'}; {slow} of "
                f"{len(ratios)} above)",
                MOST_RATIO,
                None if worst is None else ratios[worst],
                "x",
            ),
            Target(
                "TPC-H on a cluster: answers equal to the embedded store's",
                "all",
                f"{len(other)} are not" if other else "all are",
                not other,
            ),
        ],
    )


def _number(cell: Cell) -> float | None:
    return None if isinstance(cell, str) else cell


def spark(data: Mapping[str, Any]) -> Section:
    """The section of `nyala bench spark DIR`."""
    from ..spark import READS, WANTED_INGEST

    sides = ("parquet", "table()", "format")
    rows: list[Sequence[Cell]] = []
    targets = []
    series: dict[str, list[float | None]] = {"Spark on Parquet": [], "nyala.spark.table": [], "format nyala": []}
    for name, times in data["reads"].items():
        middle = [median(times[side]) for side in sides]
        ratios = [ratio(seconds, middle[0]) for seconds in middle[1:]]
        rows.append((name, middle[0], middle[1], ratios[0], middle[2], ratios[1]))
        for values, seconds in zip(series.values(), middle, strict=True):
            values.append(seconds)
        if name in READS:
            targets.append(at_most(f"Spark: {name} by table() / Spark on Parquet", READS[name][2], ratios[0], "x"))
    rate = ratio(data["ingest_rows"], median(data["ingest_seconds"]))
    targets.append(at_least("Spark: ingest of lineitem", WANTED_INGEST, rate, "rows/s"))
    return Section(
        "spark",
        "Spark over nyala",
        "One Spark session on this machine reads lineitem from a store of nyala, by `nyala.spark.table` and by the "
        "data source (`format`), and from the Parquet file of the same rows. `filter` reads four columns under Q6's "
        "conditions, `numbers` seven numeric columns of all rows; Spark sums every column. Then "
        f"`nyala spark ingest` writes the file's {data['ingest_rows']:,} rows into an empty table.",
        [
            Grid("Medians", ("", "Parquet, s", "table(), s", "ratio", "format, s", "ratio"), rows),
            Grid("Ingest", ("", "rows/s"), [("lineitem", rate)]),
        ],
        [Chart("Reads (less is better)", "s", list(data["reads"]), series)],
        targets,
    )
