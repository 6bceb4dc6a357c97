"""Processes that end while others read from them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

SERVER = """
import nyala, sys
connection = nyala.connect(sys.argv[1])
connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
connection.execute("INSERT INTO t SELECT n, 'a text of some length, ' || n FROM generate_series(1, 1500000) AS g(n)")
print(connection.serve(), flush=True)
sys.stdin.readline()
{end}
"""
CLIENT = """
import nyala, sys, time
connection = nyala.connect(sys.argv[1])
scan = iter(connection.table("t").scan())
next(scan)
print("reads", flush=True)
sys.stdin.readline()
try:
    print(sum(batch.num_rows for batch in scan), "rows")
except nyala.Error as error:
    print(type(error).__name__)
"""
HALF_READ = "cursor = connection.execute('SELECT v FROM t'); cursor.fetchone()"
SECONDS = 90.0
"""Far below a minute, after which an unread stream is abandoned; the machine may be busy."""


def started(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize("end", ["pass", "connection.close()", HALF_READ])
def test_a_served_store_whose_client_reads_on(tmp_path: Path, end: str) -> None:
    """A stream is open, and its reader takes nothing: the script ends all the same."""
    server = started(SERVER.format(end=end), str(tmp_path / "s"))
    assert server.stdin is not None and server.stdout is not None
    client = started(CLIENT, server.stdout.readline().strip())
    try:
        assert client.stdout is not None and client.stdout.readline() == "reads\n"
        began = time.monotonic()
        server.communicate("end\n", timeout=SECONDS)
        assert server.returncode == 0, time.monotonic() - began
        # The reader learns of it, and ends too.
        told, _ = client.communicate("on\n", timeout=60)
        assert "Unavailable" in told or "Deadline" in told or "rows" in told
        assert client.returncode == 0
    finally:
        for process in (server, client):
            process.kill()
            process.wait()
