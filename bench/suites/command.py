"""`nyala bench suites`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from ...errors import InterfaceError, OperationalError
from ...tpch.machine import describe
from ...tpch.peers.peer import names_among
from ..files import save_json
from .catalog import SUITES, Suite
from .engines import ENGINES
from .model import US
from .report import show
from .runner import Setting


def suites_command(arguments: argparse.Namespace) -> int:
    """Measure the named suites; returns 1 if an answer of nyala is wrong or missing."""
    chosen = choose(arguments.suites)
    queries = [name.strip() for name in (arguments.queries or "").split(",") if name.strip()]
    if queries and len(arguments.suites) != 1:
        raise InterfaceError("--queries names queries of one suite; name the suite before it")
    before = read_saved(arguments.before) if arguments.before is not None else None
    console = Console(width=160)
    setting = Setting(
        engines=names_among(arguments.engines, ENGINES, "engine"),
        runs=arguments.runs,
        threads=arguments.threads,
        buckets=arguments.buckets,
        queries=queries,
        rows=arguments.rows,
        scale=arguments.scale,
        work=arguments.work_dir,
        say=lambda text: console.print(text, style="dim", highlight=False),
    )
    found: dict[str, Any] = {}
    for suite in chosen:
        if (reason := suite.missing()) is not None:
            console.print(f"{suite.name} is left out: {reason}", highlight=False)
            continue
        found[suite.name] = suite.run(setting).as_json() | {"title": suite.title, "text": suite.text}
        # After each suite: a run that is interrupted keeps the numbers of those before.
        save_json({"machine": describe(), "suites": found}, arguments.json)
    show(found, console, before)
    return int(any(_is_wrong(data) for data in found.values()))


def choose(names: Sequence[str]) -> list[Suite]:
    """The suites of these names in their own order; all for no names."""
    wanted = names_among(",".join(names), SUITES, "suite") if names else list(SUITES)
    return [suite for name, suite in SUITES.items() if name in wanted]


def read_saved(path: Path) -> Mapping[str, Any]:
    """The suites of a file that --json wrote.

    Raises
    ------
    OperationalError
        If the file cannot be read, or is another's.
    """
    try:
        data: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))["suites"]
    except OSError as error:
        raise OperationalError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise OperationalError(f"{path} is no result of nyala bench suites") from None
    return data


def _is_wrong(data: Mapping[str, Any]) -> bool:
    return any(engines.get(US, {}).get("trouble") for engines in data["queries"].values())
