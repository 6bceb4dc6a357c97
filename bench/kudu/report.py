"""Prints the comparison with real Kudu: medians, and ratios above 1 where nyala is better."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.table import Table as TextTable

from ..report.cells import at_least, shown
from ..report.model import Grid, Section
from .model import Compared

SIDES: Final = ("nyala", "kudu")
"""Those that are compared."""
_TITLES: Final = {"nyala": "nyala", "processes": "nyala, a process per thread", "kudu": "Kudu"}
GOALS: Final = {
    "ingest": 2.0,
    "insert": 1.0,
    "update": 1.0,
    "look up": 2.0,
    "YCSB load": 1.0,
    "A": 1.0,
    "B": 2.0,
    "C": 2.0,
    "D": 2.0,
    "F": 1.0,
}
"""Least ratios of nyala's rate to Kudu's."""
_LESS_IS_BETTER: Final = {
    "p99": ("ms", 1.0),
    "scan": ("ms", 1e3),
    "disk": ("MB", 1e-6),
    "memory": ("MB", 1e-6),
    "fail-over": ("s", 1.0),
    "restart": ("s", 1.0),
    "idle": ("% of a core", 100.0),
    "servers' processor time": ("us", 1.0),
}
"""By a word of the name: the unit, and its factor. The others are rates per second."""


def ratio(compared: Compared, name: str) -> float | None:
    """The factor by which nyala is better; None if a side has no number."""
    ours, theirs = (compared.values.get(side, {}).get(name) for side in SIDES)
    if not ours or not theirs or min(median(ours), median(theirs)) <= 0:
        return None
    found: float = median(ours) / median(theirs)
    return found if _unit(name) is None else 1 / found


def missed(compared: Compared) -> list[str]:
    """The goals that were not reached, as lines."""
    lines = []
    for name, goal in GOALS.items():
        found = ratio(compared, name)
        if found is not None and found < goal:
            lines.append(f"{name}: {found:.2f} of Kudu's rate, goal {goal:g}")
    return lines


def section(data: Mapping[str, Any]) -> Section:
    """The section of the report, from the data saved by `--json`: `Compared` as a dictionary."""
    compared = Compared(data["plan"], data["versions"], data["values"], notes=data["notes"])
    plan = compared.plan
    rows = [(name, _named_unit(name)[0], *_medians(compared, name), ratio(compared, name)) for name in _names(compared)]
    return Section(
        "kudu",
        "A cluster beside real Kudu",
        f"{' and '.join(compared.versions.values())}, each with a master and {max(1, plan['replicas'])} tablet "
        f"servers on this machine, {plan['replicas']} replicas, durability {plan['durability']}, {plan['threads']} "
        "client threads, in turn, with empty stores. The ratio is above 1 where nyala is better. Kudu allocates log "
        f"segments and containers in advance, which counts as its size on disk. {' '.join(compared.notes)}",
        [Grid("Medians", ("", "unit", *(_TITLES[side] for side in _sides(compared)), "ratio"), rows)],
        targets=[at_least(f"{name}: nyala / Kudu", goal, ratio(compared, name), "x") for name, goal in GOALS.items()],
    )


def show(compared: Compared, console: Console) -> None:
    """Prints the table, the goals missed, and the notes."""
    plan = compared.plan
    title = (
        f"{' and '.join(compared.versions.values())}; {plan['replicas']} replicas, {plan['durability']}, "
        f"{plan['threads']} client threads; medians, above 1 nyala is better"
    )
    table = TextTable(title=title, title_justify="left")
    for column in ("", "unit", *(_TITLES[side] for side in _sides(compared)), "ratio", "goal"):
        table.add_column(column, justify="left" if column in ("", "unit") else "right")
    for name in _names(compared):
        found, goal = ratio(compared, name), GOALS.get(name)
        table.add_row(
            name,
            _named_unit(name)[0],
            *map(shown, (*_medians(compared, name), None if found is None else round(found, 2), goal)),
        )
    console.print(table)
    for line in (*missed(compared), *compared.notes):
        console.print(line, highlight=False)


def _unit(name: str) -> tuple[str, float] | None:
    return next((unit for word, unit in _LESS_IS_BETTER.items() if word in name), None)


def _named_unit(name: str) -> tuple[str, float]:
    return _unit(name) or ("per second", 1.0)


def _sides(compared: Compared) -> list[str]:
    """The sides of the table: those that are compared, and others that were measured."""
    return [side for side in _TITLES if side in SIDES or side in compared.values]


def _names(compared: Compared) -> list[str]:
    """The measurements of all sides, in their order."""
    return list(dict.fromkeys(name for side in _sides(compared) for name in compared.values.get(side, {})))


def _medians(compared: Compared, name: str) -> list[float | None]:
    """Of each side, in the unit of the measurement."""
    factor = _named_unit(name)[1]
    found = [compared.values.get(side, {}).get(name) for side in _sides(compared)]
    return [median(values) * factor if values else None for values in found]
