"""`nyala bench load`, `storage`, `points`, `driver`, `doors`, `cluster`, `spark`, `plan` and `maintenance`."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from ..storage.maintenance.compaction_policy import CompactionPolicy
from ..tpch import manifest
from ..tpch.generate import parquet_file
from ..tpch.queries import QUERIES
from ..tpch.schema import LINEITEM, TABLES
from . import cluster, cluster_queries, doors, driver, load, maintenance, planning, points, storage
from .files import save_json
from .lineitem_source import lineitem_source


def load_command(arguments: argparse.Namespace) -> int:
    """Load lineitem `--runs` times with each engine."""
    source, create_table = lineitem_source(arguments)
    outcomes = load.compare(
        source, "lineitem", create_table, runs=arguments.runs, threads=arguments.threads, work=arguments.work_dir
    )
    load.show({engine: tuple(found) for engine, found in outcomes.items()}, Console())
    data = {engine: [asdict(outcome) for outcome in found] for engine, found in outcomes.items()}
    save_json(data, arguments.json)
    return 0


def storage_command(arguments: argparse.Namespace) -> int:
    """Measure the storage engine on lineitem."""
    source, create_table = lineitem_source(arguments)
    measures = storage.measure(
        source, create_table, runs=arguments.runs, threads=arguments.threads, work=arguments.work_dir
    )
    storage.show(measures, Console(width=140))
    data = [asdict(line) | {"ratio": line.ratio} for line in measures]
    save_json(data, arguments.json)
    return 0


def points_command(arguments: argparse.Namespace) -> int:
    """Measure single rows of lineitem against SQLite and DuckDB."""
    source, create_table = lineitem_source(arguments)
    found = points.measure(source, create_table, runs=arguments.runs, work=arguments.directory or arguments.work_dir)
    points.show(found, Console(width=140))
    data = {engine: {step: asdict(rate) for step, rate in rates.items()} for engine, rates in found.items()}
    save_json(data, arguments.json)
    return 0


def driver_command(arguments: argparse.Namespace) -> int:
    """Measure statements through PEP 249 against SQLite and DuckDB."""
    result = driver.measure(runs=arguments.runs, work=arguments.work_dir)
    driver.show(result, Console(width=140))
    rates = {engine: {step: asdict(rate) for step, rate in steps.items()} for engine, steps in result.rates.items()}
    save_json({"rates": rates, "imports": result.imports}, arguments.json)
    return 0


def doors_command(arguments: argparse.Namespace) -> int:
    """Measure the doors against PostgreSQL."""
    sizes = doors.Sizes(arguments.rows, arguments.sf, arguments.runs, arguments.seconds)
    parts = doors.parts_of(arguments.parts)
    found = doors.measure(sizes, work=arguments.work_dir, data=arguments.data_dir, parts=parts)
    doors.show(found, Console(width=140))
    save_json(doors.plain(found), arguments.json)
    return 0 if all(query.is_equal for query in found.queries) else 1


def cluster_command(arguments: argparse.Namespace) -> int:
    """Measure a cluster of three servers against the embedded store; with a store of TPC-H, by its queries."""
    if arguments.directory is not None:
        return _cluster_queries(arguments)
    result = cluster.measure(runs=arguments.runs, durability=arguments.durability, work=arguments.work_dir)
    cluster.show(result, Console(width=140))
    save_json(asdict(result), arguments.json)
    return 0


def _cluster_queries(arguments: argparse.Namespace) -> int:
    loaded = manifest.read(arguments.directory)
    tables = {
        spec.name: (spec.create_table(loaded.buckets), parquet_file(Path(loaded.data), spec.name)) for spec in TABLES
    }
    found = cluster_queries.measure(
        arguments.directory,
        tables,
        _tpch_queries(),
        runs=arguments.runs,
        threads=arguments.threads,
        work=arguments.work_dir,
    )
    cluster_queries.show(found, Console(width=140))
    save_json(asdict(found), arguments.json)
    return 0 if all(query.is_equal for query in found.queries) else 1


def _tpch_queries() -> dict[str, str]:
    return {f"q{query.number}": query.text for query in QUERIES}


def spark_command(arguments: argparse.Namespace) -> int:
    """Measure Spark over the named store against Spark on Parquet."""
    from . import spark

    loaded = manifest.read(arguments.directory)
    result = spark.measure(
        arguments.directory,
        parquet_file(Path(loaded.data), LINEITEM.name),
        LINEITEM.create_table(loaded.buckets),
        runs=arguments.runs,
        threads=arguments.threads,
        work=arguments.work_dir,
    )
    spark.show(result, Console(width=140))
    save_json(asdict(result), arguments.json)
    return 0


def plan_command(arguments: argparse.Namespace) -> int:
    """Measure the cost of queries before execution, on a store with TPC-H in it."""
    planned, overheads = planning.measure(arguments.directory, _tpch_queries(), runs=arguments.runs)
    planning.show(planned, overheads, Console(width=140))
    data = {"cold": [asdict(line) for line in planned], "prepared": [asdict(line) for line in overheads]}
    save_json(data, arguments.json)
    return 0


def maintenance_command(arguments: argparse.Namespace) -> int:
    """Simulate the maintenance policies under the named workloads, or all."""
    chosen = [w for w in maintenance.WORKLOADS if w.name in (arguments.workload or w.name)]
    policy = CompactionPolicy(price=arguments.price)
    results = [(w.name, maintenance.simulate(w, policy, int(arguments.hours * 3600))) for w in chosen]
    maintenance.show(results, Console())
    data = {name: [asdict(sample) for sample in samples] for name, samples in results}
    save_json(data, arguments.json)
    return 0
