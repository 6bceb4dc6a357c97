"""Generates the operations of the clients before the clock runs.

Keys, fields, values and lengths of scans are drawn from `Setting.seed` and the client's number, so every store gets the
same requests. While the clock runs, a client only takes the next operation from lists and calls the store; Python's
part of that is the same for every store.

Rows are numbered: 0 to `Setting.records` - 1 are loaded, and those above are inserted.

    number        0 ... records - 1 | records ... | ...      | ...
    inserted by   the load          | client 0    | client 1 | a range for each, as long as it has operations

Each client therefore knows the keys of its inserts in advance, and no two clients of any process insert the same one.
Unused numbers between them are harmless, as keys are hashes of numbers. A workload that inserts requires exactly the
loaded rows: a second run on the same table would insert the same keys again.

The readable rows are known only while the clock runs. The clients of a process share a list of the acknowledged keys:
the loaded ones, followed by their own inserts in the order of acknowledgement (`list.append` and indexing are atomic).
YCSB keeps a counter of acknowledged inserts for this. Clients of other processes insert rows too, which this process
never requests.

    latest     the key at this distance from the end of the list
    zipfian    the key at this position of the list. Positions are drawn among twice the expected inserts, so that the
               popular rows stay the same while rows are inserted; if there is no row yet, the next position drawn is
               used instead
    uniform    one of the loaded rows
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np

from ...errors import InterfaceError
from .generators import Chooser, Numbers, ScrambledZipfian, Uniform, Zipfian, field_values, generator, key_texts
from .model import FIELDS, Client, Fields, Kind, Setting, Workload

Asked: TypeAlias = str | int | tuple[int, ...]
"""A key; or its distance from the newest; or positions in the list of acknowledged keys.

Of the positions, the first one that is filled is used (the last one always is).
"""

# As names of the module: looking up a member of an enumeration takes longer than the rest of an operation's dispatch.
_READ: Final = Kind.READ
_UPDATE: Final = Kind.UPDATE
_INSERT: Final = Kind.INSERT
_SCAN: Final = Kind.SCAN
_WITHOUT_VALUE: Final = (_READ, _INSERT, _SCAN)
_OF_LOAD: Final = 0
_OF_OPERATIONS: Final = 1
_SPARE: Final = 4_096


class ClientOperations:
    """All operations of one client thread, in order; `len` of them."""

    __slots__ = ("_acknowledged", "_keys", "_numbers", "_rows", "_values", "kinds")

    def __init__(
        self,
        kinds: list[Kind],
        keys: list[Asked],
        numbers: list[int],
        values: list[str],
        rows: dict[int, Fields],
        acknowledged: list[str],
    ) -> None:
        self.kinds = kinds
        self._keys = keys
        self._numbers = numbers
        """The number of a field, or the length of a scan."""
        self._values = values
        self._rows = rows
        self._acknowledged = acknowledged

    def __len__(self) -> int:
        return len(self.kinds)

    def requests(self) -> Iterator[tuple[Kind, str, int]]:
        """(kind, key, number of the field or length of the scan) of each, for clients that are not Python's.

        A key that depends on the acknowledged ones is "-N": the N-th from their end, from 1.

        Raises `InterfaceError` for positions in the list of acknowledged keys, which have no text.
        """
        for kind, key, number in zip(self.kinds, self._keys, self._numbers, strict=True):
            if isinstance(key, tuple):
                raise InterfaceError("zipfian keys of a workload that inserts are known to Python's clients only")
            yield kind, str(-1 - key) if isinstance(key, int) else key, number

    def execute(self, index: int, client: Client) -> Kind:
        """Executes the operation with this number, from 0.

        Errors of the client are passed on; a failed insert is not acknowledged, so its key is never requested.
        """
        kind = self.kinds[index]
        key = self._keys[index]
        if not isinstance(key, str):
            key = self._key(key)
        if kind is _READ:
            client.read(key)
        elif kind is _UPDATE:
            client.update(key, self._numbers[index], self._values[index])
        elif kind is _INSERT:
            client.insert(key, self._rows[index])
            self._acknowledged.append(key)
        elif kind is _SCAN:
            client.scan(key, self._numbers[index])
        else:
            client.read(key)
            client.update(key, self._numbers[index], self._values[index])
        return kind

    def _key(self, asked: int | tuple[int, ...]) -> str:
        if isinstance(asked, int):
            return self._acknowledged[-1 - asked]
        filled = len(self._acknowledged)
        return self._acknowledged[next(place for place in asked if place < filled)]


class LoadBatches:
    """The batches of a load, each with `Setting.batch_rows` keys and rows, except the last; threads may share it.

    Rows come in the order of their numbers; fields depend on the seed and the batch only, not on the thread. They are
    generated by the thread that takes the batch, outside any lock.
    """

    def __init__(self, setting: Setting, part: int, parts: int) -> None:
        self._setting = setting
        self._first_rows = itertools.count(part * setting.batch_rows, parts * setting.batch_rows)

    def __iter__(self) -> Iterator[tuple[Sequence[str], Sequence[Fields]]]:
        return self

    def __next__(self) -> tuple[Sequence[str], Sequence[Fields]]:
        # One step of `count` is atomic.
        first = next(self._first_rows)
        count = min(self._setting.batch_rows, self._setting.records - first)
        if count <= 0:
            raise StopIteration
        return key_texts(first, count), _rows(generator(self._setting.seed, _OF_LOAD, first), count)


def load_batches(setting: Setting, part: int = 0, parts: int = 1) -> LoadBatches:
    """All rows of a load; or every `parts`-th batch, starting with the `part`-th (from 0), if processes share the
    work."""
    return LoadBatches(setting, part, parts)


def plan(
    workload: Workload, setting: Setting, first_client: int = 0, clients: int | None = None
) -> list[ClientOperations]:
    """The operations of some of the clients, those of one process.

    Parameters
    ----------
    first_client : int
        The number of the first one, from 0 to `setting.threads` - 1.
    clients : int, optional
        Their number; by default all from the first one on.

    Returns
    -------
    list of ClientOperations
        One for each client. All together, the clients of a setting have `setting.operations` operations.

    Raises
    ------
    InterfaceError
        If there are fewer clients, or no records.
    """
    clients = setting.threads - first_client if clients is None else clients
    if not 0 <= first_client <= first_client + clients <= setting.threads:
        raise InterfaceError(f"there are {setting.threads} clients, not {first_client} to {first_client + clients}")
    if setting.records < 1:
        raise InterfaceError("a workload needs at least one loaded record")
    acknowledged = key_texts(0, setting.records)
    chooser = _chooser(workload, setting)
    return [
        _client_operations(workload, setting, number, chooser, acknowledged)
        for number in range(first_client, first_client + clients)
    ]


def _client_operations(
    workload: Workload, setting: Setting, client: int, chooser: Chooser, acknowledged: list[str]
) -> ClientOperations:
    first, count = _share(setting, client)
    rng = generator(setting.seed, _OF_OPERATIONS, zlib.crc32(workload.name.encode()), client)
    choices = list(workload.shares)
    chosen = rng.choice(len(choices), count, p=list(workload.shares.values()))
    kinds = [choices[choice] for choice in chosen.tolist()]
    places = chooser.draw(rng, count)
    fields = rng.integers(0, FIELDS, count).tolist()
    lengths = rng.integers(1, workload.longest_scan + 1, count).tolist()
    new_values = iter(field_values(rng, len(kinds) - sum(map(kinds.count, _WITHOUT_VALUE))))
    new_rows = iter(_rows(rng, kinds.count(_INSERT)))

    asked = _asked(workload, places, chooser, rng, acknowledged)
    new_keys = iter(key_texts(setting.records + first, kinds.count(_INSERT)))
    return ClientOperations(
        kinds,
        keys=[next(new_keys) if kind is _INSERT else key for kind, key in zip(kinds, asked, strict=True)],
        numbers=[
            length if kind is _SCAN else field for kind, field, length in zip(kinds, fields, lengths, strict=True)
        ],
        values=["" if kind in _WITHOUT_VALUE else next(new_values) for kind in kinds],
        rows={index: next(new_rows) for index, kind in enumerate(kinds) if kind is _INSERT},
        acknowledged=acknowledged,
    )


def _chooser(workload: Workload, setting: Setting) -> Chooser:
    if workload.distribution == "latest":
        return Zipfian(setting.records)
    if workload.distribution == "uniform":
        return Uniform(setting.records)
    expected = setting.operations * workload.shares.get(_INSERT, 0.0)
    return ScrambledZipfian(setting.records + int(2 * expected))


def _asked(
    workload: Workload, places: Numbers, chooser: Chooser, rng: np.random.Generator, acknowledged: list[str]
) -> list[Asked]:
    """The requests of the operations; `acknowledged` has only the loaded rows yet."""
    if workload.distribution == "latest":
        return list(places.tolist())
    loaded = len(acknowledged)
    spare = _endless(chooser, rng)
    return [
        acknowledged[place] if place < loaded else (place, *_until_loaded(spare, loaded)) for place in places.tolist()
    ]


def _until_loaded(spare: Iterator[int], loaded: int) -> Iterator[int]:
    """The positions to try in order, the last of which is a loaded row's."""
    for place in spare:
        yield place
        if place < loaded:
            return


def _endless(chooser: Chooser, rng: np.random.Generator) -> Iterator[int]:
    while True:
        yield from chooser.draw(rng, _SPARE).tolist()


def _rows(rng: np.random.Generator, count: int) -> list[Fields]:
    values = iter(field_values(rng, count * FIELDS))
    return list(zip(*[values] * FIELDS, strict=True))


def _share(setting: Setting, client: int) -> tuple[int, int]:
    """The number of operations of the clients before this one, and its own number."""
    each, more = divmod(setting.operations, setting.threads)
    return client * each + min(client, more), each + (client < more)
