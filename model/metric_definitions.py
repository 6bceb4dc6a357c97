"""All metrics by name: the table from which /metrics, `nyala_catalog.metrics`, pages, dashboards and alerts are made.

Names follow Prometheus' rules: base units, the unit at the end, counters with `_total`. A metric that is not here
cannot be sampled (`metrics.Sample`), and a test holds the dashboard and the alert rules to these names.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Final

from .lazy_dataclass import dataclass


class MetricKind(enum.StrEnum):
    """COUNTER: only grows while its source exists. GAUGE: may fall. HISTOGRAM: numbers of observations by upper
    bound."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes
    ----------
    name : str
    kind : MetricKind
    help : str
        One line for people.
    labels : tuple of str
        Names of its labels, in order.
    takes_greatest : bool
        Samples of several sources with equal labels: True, the greatest counts; False, their sum.
    """

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    takes_greatest: bool = False

    @property
    def family(self) -> str:
        """The name without `_total`, which OpenMetrics gives to the family of a counter."""
        return self.name.removesuffix("_total") if self.kind is MetricKind.COUNTER else self.name


_TABLE: Final = """
nyala_build_info                      gauge      1, with the version of nyala and of Python | version python
nyala_start_time_seconds              gauge      when the process started, in seconds since 1970 |
nyala_process_cpu_seconds_total       counter    processor time of the process, user and system |
nyala_process_resident_bytes          gauge      resident memory of the process |
nyala_process_open_files              gauge      open file descriptors of the process |
nyala_process_max_open_files          gauge      limit of open file descriptors |
nyala_process_threads                 gauge      threads of the process |
nyala_gc_collections_total            counter    runs of Python's garbage collector, by generation | generation
nyala_gc_pause_seconds                histogram  pauses of Python's garbage collector, since the HTTP server started |
nyala_reactor_lag_seconds             gauge      how long a job waits for the event loop, at this reading | reactor max
nyala_connections                     gauge      sockets of an event loop: listeners, clients, peers | reactor
nyala_postgres_clients                gauge      clients of the PostgreSQL protocol |
nyala_postgres_single_rows_total      counter    its statements on single rows that ran in one step | kind
nyala_sessions                        gauge      open sessions of SQL |
nyala_statements_total                counter    statements begun: "row" by the row path, "planned" all others | path
nyala_statements_running              gauge      statements that run now, or whose rows are not all read |
nyala_statement_seconds               histogram  duration of planned statements until their last row was read |
nyala_slow_statements_total           counter    planned statements that took --slow-seconds (1) or more |
nyala_statement_errors_total          counter    statements that failed, by SQLSTATE | sqlstate
nyala_tablets                         gauge      tablets that are open |
nyala_tablets_quarantined             gauge      tablets that are damaged, and neither read nor written |
nyala_rowsets                         gauge      DiskRowSets of all tablets |
nyala_table_rows                      gauge      existing rows of a table | table
nyala_table_disk_bytes                gauge      bytes of a table's DiskRowSets | table
nyala_table_quota_bytes               gauge      quota of a table, of those that have one | table max
nyala_memory_bytes                    gauge      memory by kind: rows not on disk yet, cached pages | kind
nyala_memory_limit_bytes              gauge      limit of rows and pages of all stores of the process | max
nyala_writes_delayed_total            counter    writes slowed down because memory is nearly full |
nyala_writes_waited_total             counter    writes that waited for a flush because memory is full |
nyala_write_wait_seconds_total        counter    time that these writes waited |
nyala_log_bytes                       gauge      write-ahead logs that are needed until their rows are flushed |
nyala_log_file_bytes                  gauge      files of the logs server, audit and slow, with rotated ones | log
nyala_page_cache_hits_total           counter    pages found in the cache by scans |
nyala_page_cache_insertions_total     counter    pages read from files and put into the cache |
nyala_page_cache_evictions_total      counter    pages dropped from the cache to make room |
nyala_written_bytes_total             counter    bytes written to files: logs, flushes, compactions, spilled rows |
nyala_fsync_seconds                   histogram  duration of fsync of files |
nyala_maintenance_operations_total    counter    flushes, compactions, removals that were done, by kind | kind
nyala_maintenance_failures_total      counter    operations that failed, by kind | kind
nyala_maintenance_seconds_total       counter    time of operations, by kind | kind
nyala_maintenance_written_bytes_total counter    bytes of the DiskRowSets that operations wrote, by kind | kind
nyala_maintenance_io_bytes_total      counter    bytes of data files that background work read and wrote | direction
nyala_maintenance_io_limit_bytes      gauge      ceiling of these bytes per second; 0: none |
nyala_maintenance_io_wait_seconds_total counter  time that background work waited for this ceiling |
nyala_maintenance_running             gauge      operations that run now, by kind | kind
nyala_maintenance_queued              gauge      operations that were due at the last search, by kind | kind
nyala_maintenance_best_score          gauge      the greatest score among them, by kind | kind max
nyala_maintenance_queued_bytes        gauge      bytes of memory, log or disk that they free together | kind of
nyala_replicas                        gauge      replicas of this server, by state and role in Raft | state role
nyala_raft_terms                      gauge      sum of the terms of all replicas: each election raises it by one |
nyala_raft_apply_lag_entries          gauge      log entries that are committed but not applied, the worst replica | max
nyala_raft_commit_lag_entries         gauge      log entries that are not committed, the worst replica | max
nyala_raft_leaders                    gauge      replicas of this server that lead |
nyala_prepared_transactions           gauge      transactions without an outcome yet |
nyala_prepared_seconds                gauge      age of the oldest transaction without an outcome | max
nyala_scans_open                      gauge      scans that clients have open at this server |
nyala_calls_total                     counter    calls processed by this server, by the thread that did | thread
nyala_calls_running                   gauge      calls under way at this server |
nyala_directories                     gauge      data directories, by state: used, full, failed | state
nyala_master_is_leader                gauge      1 at the master that leads, 0 at the others |
nyala_ready                           gauge      1 if the server is ready for clients (/readyz), 0 if not |
"""
"""Name, kind, help | labels. "max" after the labels: the greatest of several samples counts."""


def _parsed() -> Iterator[Metric]:
    for line in _TABLE.strip().splitlines():
        about, _, words = line.partition("|")
        name, kind, help_ = about.split(maxsplit=2)
        labels = words.split()
        greatest = labels[-1:] == ["max"]
        yield Metric(name, MetricKind(kind), help_.strip(), tuple(labels[:-1] if greatest else labels), greatest)


METRICS: Final = {metric.name: metric for metric in _parsed()}
