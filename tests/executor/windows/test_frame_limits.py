"""Frames of windows that reach beyond the values that a type holds: PostgreSQL's results."""

from __future__ import annotations

from typing import Any

import nyala
import pytest

LARGEST = 10**38 - 1
BEYOND = [
    (
        "DATE",
        ["0001-01-01", "9999-12-31", "2020-01-01"],
        ["INTERVAL '1 day'", "INTERVAL '1 month'", "INTERVAL '1 hour'"],
    ),
    ("TIMESTAMP", ["0001-01-01", "9999-12-31 23:59:59", "2020-01-01"], ["INTERVAL '1 day'", "INTERVAL '1 hour'"]),
    ("BIGINT", [str(-(2**63)), str(2**63 - 1), "0"], ["1", "0.5"]),
    ("DECIMAL(38,0)", [str(-LARGEST), str(LARGEST), "0"], ["1"]),
    ("DECIMAL(38,10)", ["-9999999999999999999999999999", "9999999999999999999999999999", "0"], ["1", "1.5"]),
    ("DOUBLE", ["-1e308", "1e308", "0"], ["1e307"]),
    ("FLOAT", ["-3e38", "3e38", "0"], ["3e37"]),
]
FRAMES = {
    "{0} PRECEDING AND {0} FOLLOWING": [1, 1, 1],
    "{0} PRECEDING AND {0} PRECEDING": [0, 0, 0],
    "{0} FOLLOWING AND {0} FOLLOWING": [0, 0, 0],
    "UNBOUNDED PRECEDING AND {0} PRECEDING": [0, 2, 1],
    "{0} FOLLOWING AND UNBOUNDED FOLLOWING": [2, 0, 1],
}


@pytest.mark.parametrize(("type_", "values", "offsets"), BEYOND, ids=lambda value: str(value)[:14])
def test_frames_that_reach_beyond_the_values_of_a_type(type_: str, values: list[str], offsets: list[str]) -> None:
    with nyala.connect(":memory:", threads=1) as connection:
        connection.execute(f"CREATE TABLE w (k INT PRIMARY KEY, v {type_})")
        for place, value in enumerate(values):
            connection.execute(f"INSERT INTO w VALUES ({place}, CAST('{value}' AS {type_}))")
        for offset in offsets:
            for frame, expected in FRAMES.items():
                query = f"SELECT count(*) OVER (ORDER BY v RANGE BETWEEN {frame.format(offset)}) FROM w ORDER BY k"
                assert _counts(connection, query) == expected, query
                falling = query.replace("ORDER BY v ", "ORDER BY v DESC ")
                mirrored = [expected[1], expected[0], expected[2]]
                assert _counts(connection, falling) == mirrored, falling


def test_an_offset_that_the_key_cannot_hold() -> None:
    with nyala.connect(":memory:", threads=1) as connection:
        rows = "(VALUES (1.5, DATE '0001-01-01'), (-2.25, DATE '9999-12-31')) w (v, d)"
        numbers = f"SELECT count(*) OVER (ORDER BY v RANGE {LARGEST} PRECEDING) FROM {rows} ORDER BY v"
        assert _counts(connection, numbers) == [1, 2]
        years = f"SELECT count(*) OVER (ORDER BY d RANGE INTERVAL '20000 years' PRECEDING) FROM {rows} ORDER BY d"
        assert _counts(connection, years) == [1, 2]


def _counts(connection: Any, query: str) -> list[int]:
    return [count for (count,) in connection.execute(query).fetchall()]
