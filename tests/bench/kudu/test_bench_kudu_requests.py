"""Operations of YCSB as text for a client that is not Python's: the same kinds, keys and fields in the same order."""

from __future__ import annotations

import pytest
from nyala.bench.ycsb.generators import key_texts
from nyala.bench.ycsb.model import Kind, Setting
from nyala.bench.ycsb.operations import plan
from nyala.bench.ycsb.workloads import WORKLOADS
from nyala.errors import InterfaceError

SETTING = Setting(records=50, operations=400, threads=3)


class Recorder:
    """A client that notes its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, int]] = []

    def read(self, key: str) -> tuple[str, ...]:
        self.calls.append(("read", key, 0))
        return ()

    def update(self, key: str, field: int, value: str) -> None:
        self.calls.append(("update", key, field))

    def insert(self, key: str, fields: object) -> None:
        self.calls.append(("insert", key, 0))

    def scan(self, first: str, count: int) -> tuple[tuple[str, ...], ...]:
        return ()

    def load(self, keys: object, rows: object) -> None:
        raise AssertionError

    def close(self) -> None:
        return


@pytest.mark.parametrize("name", ["A", "B", "C", "D", "F"])
def test_texts_describe_what_a_client_does(name: str) -> None:
    executed, described = plan(WORKLOADS[name], SETTING), plan(WORKLOADS[name], SETTING)
    acknowledged = list(key_texts(0, SETTING.records))
    for own, other in zip(executed, described, strict=True):
        recorder = Recorder()
        for index in range(len(own)):
            own.execute(index, recorder)
        expected = []
        for kind, text, number in other.requests():
            key = acknowledged[-int(text[1:])] if text.startswith("-") else text
            if kind is Kind.INSERT:
                acknowledged.append(key)
                expected.append(("insert", key, 0))
            if kind in (Kind.READ, Kind.READ_MODIFY_WRITE):
                expected.append(("read", key, 0))
            if kind in (Kind.UPDATE, Kind.READ_MODIFY_WRITE):
                expected.append(("update", key, number))
        assert recorder.calls == expected


def test_positions_among_acknowledged_keys_have_no_text() -> None:
    everything = [list(client.kinds) for client in plan(WORKLOADS["E"], SETTING)]
    assert everything
    with pytest.raises(InterfaceError, match="Python's clients only"):
        for client in plan(WORKLOADS["E"], SETTING):
            list(client.requests())
