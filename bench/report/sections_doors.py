"""The section of the doors: the PostgreSQL protocol and Flight SQL, from the saved data of `nyala bench doors`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .cells import at_least, at_most, geometric_mean, median, ratio
from .model import Cell, Chart, Grid, Section, Target

SELECT_AT_LEAST: Final = 5.0
"""Minimum factor of rows per second over PostgreSQL."""
LINEITEM_AT_LEAST: Final = 2.0
LOOK_UP_AT_LEAST: Final = 1.0
INSERTS_AT_LEAST: Final = 5000.0
FLIGHT_AT_LEAST: Final = 1.0
"""GB/s."""
_COLUMNS: Final = (
    "",
    "nyala, per second",
    "PostgreSQL, per second",
    "nyala / PostgreSQL",
    "nyala's server, µs",
    "PostgreSQL's server, µs",
    "client of nyala, µs",
)


def doors(data: Mapping[str, Any]) -> Section:
    """The section of `nyala bench doors`."""
    from ..door_queries import MOST_RATIO
    from ..door_transfers import NUMBERS_BYTES
    from ..doors import COPY_LINEITEM, FLIGHT_SQL, SELECT

    ours, theirs = (data["steps"].get(name, {}) for name in ("nyala", "postgresql"))
    rows = {step: _row(step, ours[step], theirs.get(step)) for step in ours}
    singles = [step for step in rows if "client" in step]
    flight, inserts = (_best(ours.get(step)) for step in (FLIGHT_SQL, "insert, 8 clients"))
    queries = [_query(one) for one in data["queries"]]
    ratios = {str(row[0]): row[3] for row in queries if isinstance(row[3], float)}
    worst = max(ratios, key=lambda name: ratios[name], default="none")
    mean = geometric_mean(list(ratios.values()))
    other = [one["name"].upper() for one in data["queries"] if not one["is_equal"]]

    grids = (
        Grid("Single rows", _COLUMNS, [rows[step] for step in singles]),
        Grid("Many rows", _COLUMNS, [row for step, row in rows.items() if step not in singles]),
        Grid("TPC-H, medians", ("query", "psycopg, ms", "embedded, ms", "psycopg / embedded"), queries),
    )

    def faster(what: str, step: str, least: float) -> Target:
        return at_least(f"the doors: {what} / PostgreSQL", least, _ratio(rows.get(step)), "x")

    return Section(
        "doors",
        "Clients of PostgreSQL and Flight SQL",
        "`nyala serve` and PostgreSQL, both as servers of this machine with their default durability, read and written "
        "by the same clients in turn: single rows by psycopg, each client in a process of its own; results by ADBC's "
        "drivers as Arrow tables; binary COPY by psycopg. The best round counts. Processor times are those of all "
        "processes of a server, and of the client, for a statement or a row. TPC-H's queries are run by psycopg and, "
        "in turn, in a process that has a copy of the same store open; both return rows of Python values.",
        [grid for grid in grids if grid.rows],
        [
            Chart(
                "Many rows (more is better)",
                "rows/s",
                [step for step in rows if step not in singles],
                {
                    "nyala": [_best(ours[step]) for step in rows if step not in singles],
                    "PostgreSQL": [_best(theirs.get(step)) for step in rows if step not in singles],
                },
            )
        ],
        [
            faster("select of four numeric columns", SELECT, SELECT_AT_LEAST),
            at_least(
                "Flight SQL: four numeric columns",
                FLIGHT_AT_LEAST,
                None if flight is None else flight * NUMBERS_BYTES / 1e9,
                "GB/s",
            ),
            faster("binary COPY of lineitem", COPY_LINEITEM, LINEITEM_AT_LEAST),
            faster("look-ups by 8 clients", "look up, 8 clients", LOOK_UP_AT_LEAST),
            at_least("the doors: inserts by 8 clients", INSERTS_AT_LEAST, inserts, "per second"),
            at_most(f"TPC-H by psycopg / embedded, geometric mean (worst: {worst.upper()})", MOST_RATIO, mean, "x"),
            Target(
                "TPC-H by psycopg: answers equal to the embedded store's",
                "all",
                "not measured" if not queries else f"{', '.join(other)} are not" if other else "all are",
                bool(queries) and not other,
                bool(queries),
            ),
        ],
    )


def _best(step: Mapping[str, Sequence[float]] | None) -> float | None:
    return None if step is None else max(step["per_second"])


def _row(step: str, ours: Mapping[str, Any], theirs: Mapping[str, Any] | None) -> Sequence[Cell]:
    rates = _best(ours), _best(theirs)
    used = (_least(ours, "server_seconds"), _least(theirs, "server_seconds"), _least(ours, "client_seconds"))
    return (step, *rates, ratio(*rates), *used)


def _least(step: Mapping[str, Any] | None, part: str) -> float | None:
    return None if step is None else 1e6 * min(step[part])


def _ratio(row: Sequence[Cell] | None) -> float | None:
    found = None if row is None else row[3]
    return found if isinstance(found, float) else None


def _query(one: Mapping[str, Any]) -> Sequence[Cell]:
    middle = [median(one[side]) for side in ("psycopg", "embedded")]
    shown = [None if seconds is None else 1e3 * seconds for seconds in middle]
    return (one["name"], *shown, ratio(*middle))
