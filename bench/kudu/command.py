"""`nyala bench kudu`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from functools import partial

from rich.console import Console

from ...tpch.generate import generate, parquet_file
from ...tpch.peers.peer import names_among
from ..files import save_json
from ..ycsb.model import Setting
from ..ycsb.workloads import WORKLOADS
from .distribution import find_kudu
from .kudu_side import KuduSide
from .measuring import MakeSide, measure
from .model import YCSB, Plan
from .nyala_side import NyalaSide, of_processes
from .report import show


def kudu_command(arguments: argparse.Namespace) -> int:
    """Measures both sides; returns 1 if a step failed or answers differed."""
    every: dict[str, MakeSide] = {
        "kudu": partial(KuduSide, find_kudu(arguments.kudu)),
        "nyala": NyalaSide,
        "processes": of_processes,
    }
    sides = {name: every[name] for name in names_among(arguments.sides, every, "side")}
    asked = arguments.workloads.upper()
    workloads = names_among(asked, {name: WORKLOADS[name] for name in YCSB}, "workload") if asked.strip() else []
    lineitem = None
    if arguments.sf:
        directory = generate(arguments.sf, arguments.data_dir or arguments.kudu / f"tpch-parquet-sf{arguments.sf:g}")
        lineitem = parquet_file(directory, "lineitem")
    plan = Plan(
        replicas=arguments.replicas,
        durability=arguments.durability,
        threads=arguments.threads,
        processes=arguments.processes,
        rows=arguments.rows,
        singles=arguments.singles,
        batch=10_000,
        ycsb=Setting(
            records=arguments.records,
            operations=arguments.ops,
            threads=arguments.threads,
            processes=arguments.processes,
            durability=arguments.durability,
            seconds=arguments.seconds,
        ),
        workloads=tuple(WORKLOADS[name] for name in workloads),
        lineitem=lineitem,
        seconds=arguments.seconds,
        idle_tablets=arguments.idle_tablets,
    )
    compared = measure(
        sides,
        plan,
        runs=arguments.runs,
        work=arguments.work_dir,
        say=lambda line: print(line, file=sys.stderr, flush=True),
        keep=lambda found: save_json(asdict(found), arguments.json),
    )
    show(compared, Console(width=140))
    save_json(asdict(compared), arguments.json)
    return 1 if compared.notes else 0
