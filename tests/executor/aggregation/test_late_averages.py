"""Averages are divided for the groups that are still needed when they are read."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import nyala
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.executor.aggregation import aggregate_calls
from nyala.executor.aggregation.late_averages import late_averages
from nyala.model.types import DECIMAL
from nyala.model.vectors.vector import Batch, Flat


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of averages that were divided at a time."""
    numbers: list[int] = []
    divide = aggregate_calls._average

    def counted(call: Any, total: Any, counts: Any, validity: Any) -> Any:
        numbers.append(len(counts))
        return divide(call, total, counts, validity)

    monkeypatch.setattr(aggregate_calls, "_average", counted)
    return numbers


@pytest.mark.parametrize("type_", ["bigint", "decimal(9, 2)", "decimal(18, 0)"])
def test_a_top_n_divides_its_rows(divided: list[int], type_: str) -> None:
    with nyala.connect(":memory:") as connection:
        rows = f"(SELECT (i / 2)::bigint AS k, i::{type_} AS x FROM generate_series(0, 19999) AS s(i)) AS r"
        text = f"SELECT k, avg(x), sum(x) FROM {rows} GROUP BY k"
        top = connection.execute(f"{text} ORDER BY sum(x) DESC LIMIT 3").fetchall()
        assert sum(divided) <= 30
        assert [(k, Fraction(average)) for k, average, _ in top] == [
            (9999 - i, Fraction(2 * (19999 - 2 * i) - 1, 2)) for i in range(3)
        ]
        having = connection.execute(f"{text} HAVING avg(x) > 19990.5 ORDER BY k").fetchall()
        assert [Fraction(average) for _, average, _ in having] == [i + Fraction(1, 2) for i in range(19992, 20000, 2)]


@settings(max_examples=examples(60))
@given(st.data())
def test_any_selections_are_those_of_all_averages(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    sums = np.array(data.draw(st.lists(st.integers(-(2**40), 2**40), min_size=count, max_size=count)), np.int64)
    counts = np.array(data.draw(st.lists(st.integers(0, 5), min_size=count, max_size=count)), np.int64)

    def divide(sums: Any, counts: Any) -> Flat:
        return Flat(DECIMAL(18, 0), sums // np.maximum(counts, 1), None if counts.all() else counts > 0)

    wanted = divide(sums, counts).to_arrow().to_pylist()
    batch = Batch([late_averages(divide, sums, counts)], count)
    for _ in range(data.draw(st.integers(1, 4))):
        rows = data.draw(st.lists(st.integers(0, count - 1), max_size=9))
        found = batch.select(np.array(rows, np.intp))
        if data.draw(st.booleans()):
            found, rows = found.select(np.arange(len(rows))[::-1]), rows[::-1]
        assert found.column(0).to_arrow().to_pylist() == [wanted[row] for row in rows]
    assert batch.column(0).to_arrow().to_pylist() == wanted
