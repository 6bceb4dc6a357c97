"""Cancelling: from another thread, by Ctrl-C, by closing; afterwards the connection works on."""

import os
import signal
import subprocess
import sys
import threading

import pyarrow as pa
import pytest
from nyala.errors import Cancelled

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


def test_ctrl_c_ends_the_statement_only():
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "running\n"
            # Time enough to be inside the statement; if it is not, the interrupt lands in the try block all the same.
            threading.Event().wait(0.5)
            os.kill(child.pid, signal.SIGINT)
            out, _ = child.communicate(timeout=30)
        finally:
            child.kill()
    assert out == "(2000,)\n"
    assert child.returncode == 0
