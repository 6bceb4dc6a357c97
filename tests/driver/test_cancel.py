"""Cancelling: from another thread, by Ctrl-C, by closing; afterwards the connection works on."""

import os
import signal
import subprocess
import sys
import threading

import pyarrow as pa
import pytest
from nyala.errors import Cancelled
from nyala.executor.run.interrupts import DeferInterrupts

SLOW = "SELECT count(*) FROM n a, n b, n c WHERE a.k + b.k + c.k = -1"
"""A cross join of 8 billion rows."""


@pytest.fixture
def numbers(connection):
    connection.execute("CREATE TABLE n (k INT PRIMARY KEY)")
    connection.load("n", pa.table({"k": pa.array(range(2000), pa.int32())}))
    return connection


def test_cancel_from_another_thread(numbers):
    timer = threading.Timer(0.3, numbers.cancel)
    timer.start()
    with pytest.raises(Cancelled):
        numbers.execute(SLOW).fetchall()
    timer.join()
    assert numbers.execute("SELECT count(*) FROM n").fetchone() == (2000,)


def test_cancel_with_nothing_running_does_nothing(numbers):
    numbers.cancel()
    assert numbers.execute("SELECT count(*) FROM n").fetchone() == (2000,)


def test_a_result_half_read_is_dropped_cleanly(numbers):
    before = threading.active_count()
    for _ in range(20):
        numbers.execute("SELECT a.k FROM n a, n b").fetchmany(10)
    assert threading.active_count() <= before + 4


INTERRUPTED = f"""
import signal, pyarrow as pa, nyala
# Whoever runs the tests in the background may have had the signal ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
connection = nyala.connect(":memory:")
connection.execute("CREATE TABLE n (k INT PRIMARY KEY)")
connection.load("n", pa.table({{"k": pa.array(range(2000), pa.int32())}}))
print("running", flush=True)
try:
    connection.execute({SLOW!r}).fetchall()
except KeyboardInterrupt:
    print(connection.execute("SELECT count(*) FROM n").fetchone(), flush=True)
"""


@pytest.mark.slow
def test_ctrl_c_ends_the_statement_only():
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "running\n"
            # Time enough to be inside the statement; if it is not, the interrupt lands in the try block all the same.
            threading.Event().wait(0.5)
            os.kill(child.pid, signal.SIGINT)
            out, _ = child.communicate(timeout=90)
        finally:
            child.kill()
    assert out == "(2000,)\n"
    assert child.returncode == 0


def test_planning_can_be_cancelled(numbers, monkeypatch):
    """The event is looked at between the rules."""
    from nyala.planner import plan

    rule, seen = plan.Pipeline.apply, []

    def cancelling(pipeline, given):
        seen.append(given.name)
        if len(seen) == 2:
            numbers.cancel()
        rule(pipeline, given)

    monkeypatch.setattr(plan.Pipeline, "apply", cancelling)
    with pytest.raises(Cancelled):
        numbers.execute("SELECT k FROM n WHERE k > 3")
    assert len(seen) == 2
    assert len(numbers.execute("SELECT k FROM n WHERE k > 3").fetchall()) == 1996


def test_a_load_can_be_cancelled(numbers):
    def batches():
        yield pa.record_batch({"k": pa.array([5000], pa.int32())})
        numbers.cancel()
        yield pa.record_batch({"k": pa.array([5001], pa.int32())})

    with pytest.raises(Cancelled):
        numbers.load("n", batches())
    assert numbers.execute("SELECT count(*) FROM n").fetchone() == (2000,)
    numbers.load("n", pa.table({"k": pa.array([5000], pa.int32())}))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("INSERT INTO n SELECT k + 10000 FROM n", (4000,)),
        ("INSERT INTO n VALUES (-1)", (2001,)),
        ("DELETE FROM n WHERE k % 2 = 0", (1000,)),
    ],
)
def test_an_interrupt_waits_until_a_write_is_done(numbers, monkeypatch, text, left):
    """Ctrl-C in the middle of the store's work: all of it is done, and then the interrupt takes effect."""
    database = type(numbers.store)
    for name in ("write", "write_row"):
        plain = getattr(database, name)

        def interrupted(self, *args, plain=plain, **options):
            signal.raise_signal(signal.SIGINT)
            return plain(self, *args, **options)

        monkeypatch.setattr(database, name, interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            numbers.execute(text)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert numbers.execute("SELECT count(*) FROM n").fetchone() == left


def test_a_second_ctrl_c_does_not_set_the_event_once_more():
    """It may come while the first one's handler is in `Event.set`, whose lock is not re-entrant: that never ended."""

    class Interrupted(threading.Event):
        depth = 0

        def set(self):
            assert not self.depth, "the handler of the second signal waits for the lock of the first"
            self.depth += 1
            signal.raise_signal(signal.SIGINT)
            self.depth -= 1
            super().set()

    cancel = Interrupted()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), DeferInterrupts(cancel):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert cancel.is_set()


def test_the_progress_handler_is_told_the_end_of_every_statement(numbers):
    seen = []
    numbers.set_progress_handler(seen.append)
    numbers.execute("SELECT sum(k) FROM n").fetchall()
    assert (seen[-1].rows, seen[-1].fraction) == (2000, 1.0)
    for text in ("INSERT INTO n VALUES (5000)", "SELECT * FROM n WHERE k = 1", "SELECT * FROM n WHERE k = 1"):
        seen.clear()
        numbers.execute(text).fetchall() if text.startswith("SELECT") else numbers.execute(text)
        assert seen[-1].fraction == 1.0
    seen.clear()
    numbers.load("n", pa.table({"k": pa.array([5001, 5002], pa.int32())}))
    assert (seen[-1].rows, seen[-1].expected_rows) == (2, 2)
    numbers.set_progress_handler(None)
    seen.clear()
    numbers.execute("SELECT sum(k) FROM n").fetchall()
    assert seen == []
    numbers.set_progress_handler(lambda progress: True)
    with pytest.raises(Cancelled):
        numbers.execute("SELECT a.k + b.k + c.k FROM n a, n b, n c").fetchall()
