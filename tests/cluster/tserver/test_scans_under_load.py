"""Scans under concurrent work: each returns exactly the rows as of its timestamp, however often its stream breaks."""

from __future__ import annotations

import random
import threading
import uuid
from pathlib import Path

import pytest
from nyala.cluster.wire.messages import methods
from nyala.errors import Error, ScannerExpired
from nyala.model.store import Op, ScanSpec
from tserver_support import Servers, rows, tuples, wait_for

pytestmark = pytest.mark.slow

ROWS = 150_000
CHANGES = 25


def read_with_breaks(servers: Servers, number: int, id: str, spec: ScanSpec, dice: random.Random) -> list[int]:
    """Returns the keys of a scan whose stream is abandoned after some batches, again and again."""
    scanner, found = uuid.uuid4().hex, []
    received = 0
    while True:
        stream = servers.stream(number, id, spec, scanner=scanner, resume_batch=received)
        stops = dice.randrange(1, 4)
        with stream:
            for batch in stream:
                found += [row[0] for row in tuples([batch])]
                received += 1
                stops -= 1
                if not stops:
                    break
            if stream.end is not None:
                return found


def test_every_scan_gives_the_rows_of_its_time(tmp_path: Path) -> None:
    with Servers(tmp_path, 3, memrowset_bytes=1 << 20, rowset_bytes=1 << 20) as servers:
        id = servers.create()
        for start in range(0, ROWS, 50_000):
            servers.write(id, rows(range(start, start + 50_000)))
        servers.call(servers.leader(id), methods.WorkOnTablet(tablet_id=id, work="flush"))
        stopped = threading.Event()
        wrong: list[object] = []
        counts: list[tuple[int, int]] = []
        """(time, rows) after each change."""
        scans = [0]

        def read(seed: int) -> None:
            dice = random.Random(seed)
            while not stopped.is_set() or scans[0] < 20:
                number = dice.randrange(3)
                snapshot, expected = dice.choice(counts)
                spec = ScanSpec(("k", "v"), snapshot=snapshot, ordered=dice.random() < 0.3)  # type: ignore[arg-type]
                try:
                    if dice.random() < 0.5:
                        found = [row[0] for row in servers.read(number, id, spec)]
                    else:
                        found = read_with_breaks(servers, number, id, spec, dice)
                except ScannerExpired:
                    continue  # a batch was lost in transit, and is not kept any more
                except Error as error:
                    wrong.append(error)
                    return
                scans[0] += 1
                if len(found) != expected or len(set(found)) != expected:
                    wrong.append((number, spec, expected, len(found), len(set(found))))
                if spec.ordered and found != sorted(found):
                    wrong.append(("order", number))

        counts.append((servers.clock.now(), ROWS))
        readers = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
        for reader in readers:
            reader.start()
        for change in range(CHANGES):
            keys = range(ROWS + 10 * change, ROWS + 10 * change + 10)
            servers.write(id, rows(keys))
            servers.write(id, rows(range(3 * change, 3 * change + 3)).select(["k"]), Op.DELETE)
            counts.append((servers.clock.now(), ROWS + 7 * (change + 1)))
            if wrong:
                break
        stopped.set()
        for reader in readers:
            reader.join()
        assert not wrong
        for number in servers.running:
            wait_for(lambda number=number: servers.running[number].scans.count == 0 or _expired(servers, number))


def _expired(servers: Servers, number: int) -> bool:
    """Scans whose last stream was abandoned wait for another; nothing else is left."""
    scanners = servers.running[number].scans._scanners
    return all(not scanner.is_attached for scanner in list(scanners._live.values()))
