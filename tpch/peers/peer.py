"""The protocol of a peer: an engine that executes the 22 queries over the Parquet files, or over tables loaded from
them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa

from ...errors import InterfaceError, OperationalError, did_you_mean


class Peer(Protocol):
    """One engine. Its life: `missing`, `prepare`, any number of `run`, `close`."""

    @property
    def name(self) -> str:
        """The name in `--peers` and the reports."""
        ...

    @property
    def version(self) -> str:
        """The engine's version, once prepared."""
        ...

    def missing(self) -> str | None:
        """The installation advice for a missing package; None if the peer can be prepared. Starts nothing."""
        ...

    def prepare(self, data: Path, threads: int) -> None:
        """Defines the eight tables, from the Parquet files in the directory `data`.

        No query of this peer uses more than `threads` threads.
        """
        ...

    def run(self, text: str) -> pa.Table:
        """Runs a query of TPC-H, the text of `queries.Query.text`; returns its whole result."""
        ...

    def close(self) -> None:
        """Releases the resources of `prepare`; does nothing the second time, nor before `prepare`."""
        ...


def names_among(text: str, known: Iterable[str], what: str) -> list[str]:
    """The names of a list such as "nyala,duckdb", without repetitions; raises `InterfaceError` for an unknown name, and
    if there is none.

    >>> names_among("duckdb, nyala,duckdb", ["nyala", "duckdb", "sqlite"], "engine")
    ['duckdb', 'nyala']
    """
    known = list(known)
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InterfaceError(f"no {what} is named; there are {', '.join(known)}")
    for name in names:
        if name not in known:
            raise InterfaceError(f"there is no {what} {name}{did_you_mean(name, known)}")
    return names


P = TypeVar("P", bound=Peer)


@contextmanager
def opened(peer: P, data: Path, threads: int) -> Iterator[P]:
    """A prepared peer, closed at the end. Raises `OperationalError` if it is not installed."""
    missing = peer.missing()
    if missing is not None:
        raise OperationalError(missing)
    try:
        peer.prepare(data, threads)
        yield peer
    finally:
        peer.close()


def missing_module(module: str, what: str, extra: str) -> str | None:
    """The result of `Peer.missing` for an engine that is the Python package `module`."""
    if find_spec(module) is not None:
        return None
    return f"{what} is not installed; try: pip install 'nyala[{extra}]', or pip install {module}"


def quoted(path: Path) -> str:
    """A path as an SQL text."""
    escaped = str(path).replace("'", "''")
    return f"'{escaped}'"
