"""A tablet server as a process: it starts, is stopped, and is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from nyala.cluster.raft.messages import Configuration, Peer
from nyala.cluster.wire.calls.rpc import Channel
from nyala.cluster.wire.messages import methods
from nyala.cluster.wire.rows.write_rows import write_to_request
from nyala.model.clock import HybridClock
from nyala.model.store import Op, WriteBatch
from tserver_support import rows, tablet, wait_for

pytestmark = pytest.mark.slow

PROGRAM = """
    import sys
    from nyala.cluster.tserver.options import TabletServerOptions
    from nyala.cluster.tserver.server import run

    directory = sys.argv[1]
    options = TabletServerOptions(directory=directory, bind="127.0.0.1:0", allow_faults=True)
    sys.exit(run(options, address_file=f"{directory}/address", log_file=f"{directory}/log"))
"""


def start(directory: Path) -> tuple[subprocess.Popen[bytes], Channel]:
    directory.mkdir(exist_ok=True)
    address = directory / "address"
    address.unlink(missing_ok=True)
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(PROGRAM), str(directory)])
    wait_for(lambda: address.exists() or process.poll() is not None)
    return process, Channel(address.read_text().strip(), HybridClock())


def rows_at(channel: Channel) -> int:
    (report,) = channel.call(methods.ReportTablets()).tablets
    return int(report.rows) if report.is_serving else -1


def test_a_server_keeps_what_it_acknowledged_however_it_ends(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    process, channel = start(directory)
    try:
        status = channel.call(methods.GetStatus())
        configuration = Configuration((Peer(status.id, status.address),))
        channel.call(methods.CreateTablet(tablet=tablet(), configuration=configuration))
        for part, number in enumerate((signal.SIGKILL, signal.SIGTERM)):
            wait_for(lambda channel=channel, part=part: rows_at(channel) == 100 * part)
            batch = WriteBatch(rows(range(100 * part, 100 * part + 100)), Op.INSERT)
            channel.call(write_to_request(batch, tablet_id="t1-p0", schema_version=0, call=None))
            process.send_signal(number)
            assert process.wait(60) == (-number if number == signal.SIGKILL else 0)
            process, channel = start(directory)
        wait_for(lambda: rows_at(channel) == 200)
    finally:
        process.kill()
        process.wait()
    assert '"event": "stopped"' in (directory / "log").read_text()
