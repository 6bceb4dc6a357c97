"""Bytes written and fsyncs of this process: counted where the system is called, read by `model.metrics`."""

from __future__ import annotations

from collections.abc import Iterator

from ...model.metrics import Histogram, Sample, register


class DiskCounters:
    """Totals since the process started.

    Attributes
    ----------
    written_bytes : int
        Bytes that the system has taken.
    fsync : Histogram
        Seconds of each fsync of a file.
    """

    __slots__ = ("__weakref__", "fsync", "written_bytes")

    def __init__(self) -> None:
        self.written_bytes = 0
        self.fsync = Histogram()

    def samples(self) -> Iterator[Sample]:
        """For `metrics.collect`."""
        yield Sample("nyala_written_bytes_total", self.written_bytes)
        yield Sample("nyala_fsync_seconds", self.fsync.read())


DISK = DiskCounters()
register(DISK.samples)
