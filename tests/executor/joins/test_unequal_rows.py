"""Semi-joins and anti-joins on equal keys and a value that differs are decided without pairs."""

from __future__ import annotations

import decimal
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from examples import examples
from executor_support import MemoryStore
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.executor import ExecutionContext
from nyala.executor.execute import execute
from nyala.executor.joins import join_index, probing
from nyala.executor.joins.join_index import JoinIndex
from nyala.model.types import BOOLEAN
from nyala.planner.algebra.physical import HashJoin, TableScan
from nyala.sql.expressions import Call, Column

VALUES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [1, 2, 2**62, None],
    pa.string(): ["", "a", "b", None],
    pa.float64(): [0.0, -0.0, float("nan"), 1.5, None],
    pa.decimal128(30, 2): [decimal.Decimal(0), decimal.Decimal("12345678901234567890.25"), None],
}


def side(store: MemoryStore, name: str, rows: list[tuple[Any, Any]], type_: pa.DataType) -> TableScan:
    columns = {
        f"{name}0": pa.array(range(len(rows)), pa.int64()),
        f"{name}k": pa.array([row[0] for row in rows], pa.int64()),
        f"{name}v": pa.array([row[1] for row in rows], type_),
    }
    table = store.add(name, pa.table(columns), plain=len(rows) % 2 == 0)
    offset = 100 if name == "b" else 0
    found = tuple(Column(c.type, True, offset + i, c.name) for i, c in enumerate(table.schema.columns))
    return TableScan(columns=found, table=table, alias=name, names=tuple(columns), fetched=found)


@pytest.mark.parametrize("kind", ["semi", "anti"])
@settings(deadline=None, max_examples=examples(40))
@given(data=st.data())
def test_same_rows_as_with_all_of_them(kind: str, data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from(list(VALUES)))
    factor = data.draw(st.sampled_from([1, 100, 10**6]))
    rows = st.lists(
        st.tuples(st.sampled_from([0, factor, 2 * factor, None]), st.sampled_from(VALUES[type_])), max_size=40
    )
    store = MemoryStore(batch_rows=9)
    probe, build = (side(store, name, data.draw(rows), type_) for name in "pb")
    args = (probe.columns[2], build.columns[2])
    node = HashJoin(
        columns=probe.columns,
        kind=kind,
        probe=probe,
        build=build,
        probe_keys=probe.columns[1:2],
        build_keys=build.columns[1:2],
        residual=Call(BOOLEAN, True, "ne", args[:: data.draw(st.sampled_from([1, -1]))]),
    )

    limit = data.draw(st.sampled_from([None, 1500]))

    def run() -> Counter[int]:
        context = ExecutionContext(store, threads=1, memory_limit=limit)  # type: ignore[arg-type]
        batches = execute(node, context)
        return Counter(number for batch in batches for number in batch.column(0).to_arrow().to_pylist())

    with pytest.MonkeyPatch.context() as patch:
        if factor > 1:
            # Slots by rank, and by hash.
            patch.setattr(join_index, "_ALWAYS_DIRECT", 0)
            patch.setattr(join_index, "_ALWAYS_RANKED", 0)
        found = run()
        patch.setattr(probing.UnequalRows, "make", lambda *args: None)
        assert found == run()


def test_no_pair_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JoinIndex, "pairs", None)
    store = MemoryStore(batch_rows=500)
    probe, build = (side(store, name, [(i % 10, i % 7) for i in range(1000)], pa.int64()) for name in "pb")
    node = HashJoin(
        columns=probe.columns,
        kind="semi",
        probe=probe,
        build=build,
        probe_keys=probe.columns[1:2],
        build_keys=build.columns[1:2],
        residual=Call(BOOLEAN, True, "ne", (probe.columns[2], build.columns[2])),
    )
    batches = list(execute(node, ExecutionContext(store, threads=1)))  # type: ignore[arg-type]
    assert sum(batch.length for batch in batches) == 1000
