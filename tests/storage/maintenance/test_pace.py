"""Merges rest while others are at work, the longer the less they save; nothing else does."""

from __future__ import annotations

import pytest
from nyala.storage.maintenance.maintenance_policy import OpKind, OpStatistics
from nyala.storage.maintenance.throttle import LONGEST_REST, RESTS, Pace

FLUSH = OpStatistics(OpKind.FLUSH_MEMROWSET, ram_bytes=1 << 20, score=0.3)


def merge(worth: float) -> OpStatistics:
    return OpStatistics(OpKind.COMPACT_ROWSETS, score=0.3, worth=worth)


class Machine:
    """Clocks that go on as operations run and others work."""

    def __init__(self, load: float) -> None:
        self.now, self.process, self.thread = 100.0, 7.0, 3.0
        self.load = load
        """Processors that others use."""
        self.pace = Pace(lambda: self.now, lambda: self.process, lambda: self.thread)
        self.wait(1.0)

    def wait(self, seconds: float) -> None:
        self._pass(seconds, own=0.0)
        self.pace.look()

    def run(self, operation: OpStatistics, seconds: float) -> None:
        self.pace.run(operation, lambda: self._pass(seconds, own=0.9))

    def fail(self, operation: OpStatistics, seconds: float) -> None:
        def work() -> None:
            self._pass(seconds, own=0.5)
            raise OSError("no room")

        with pytest.raises(OSError, match="no room"):
            self.pace.run(operation, work)

    def _pass(self, seconds: float, own: float) -> None:
        self.now += seconds
        self.thread += own * seconds
        self.process += (own + self.load) * seconds

    def seconds_until_allowed(self, operation: OpStatistics) -> float:
        began = self.now
        while not self.pace.allows(operation):
            self.wait(0.25)
        return self.now - began


@pytest.mark.parametrize(("worth", "rest"), [(1.5, 2 * RESTS), (2.0, RESTS), (3.0, RESTS / 2), (1e9, 0.0)])
def test_a_merge_rests_while_others_work(worth: float, rest: float) -> None:
    machine = Machine(load=0.6)
    assert machine.seconds_until_allowed(merge(worth)) == 0.0, "the first one"
    machine.run(merge(worth), seconds=4.0)
    assert machine.seconds_until_allowed(merge(worth)) == pytest.approx(4.0 * rest, abs=0.3)


def test_no_rest_is_longer_than_a_minute() -> None:
    machine = Machine(load=0.6)
    machine.run(merge(1.0), seconds=30.0)
    assert machine.seconds_until_allowed(merge(1.0)) == LONGEST_REST


def test_what_is_worth_more_need_not_wait_for_what_was_worth_little() -> None:
    machine = Machine(load=0.6)
    machine.run(merge(1.01), seconds=4.0)
    machine.wait(2.1)
    assert not machine.pace.allows(merge(1.01))
    assert machine.pace.allows(merge(5.0))


def test_a_merge_goes_on_where_nobody_else_works_any_more() -> None:
    machine = Machine(load=0.1)
    machine.run(merge(1.1), seconds=4.0)
    assert machine.pace.allows(merge(1.1))
    machine.load = 0.9
    machine.wait(1.0)
    assert not machine.pace.allows(merge(1.1))
    machine.load = 0.0
    machine.wait(1.0)
    assert machine.pace.allows(merge(1.1))


def test_what_is_no_merge_does_not_wait() -> None:
    machine = Machine(load=0.9)
    machine.run(merge(1.1), seconds=4.0)
    machine.run(FLUSH, seconds=1.0)
    assert machine.pace.allows(FLUSH)
    assert not machine.pace.allows(merge(1.1))


def test_a_merge_that_fails_rests_too() -> None:
    machine = Machine(load=0.9)
    machine.fail(merge(2.0), seconds=2.0)
    assert machine.seconds_until_allowed(merge(2.0)) == pytest.approx(2.0 * RESTS, abs=0.3)
