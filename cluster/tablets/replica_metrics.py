"""Metrics of a tablet server, and of a master's one tablet: Raft, transactions, scans, directories.

Made of the replicas' reports on request; `Maintenance`, a `BackgroundWork`, has those of storage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ...model.metrics import Sample
from ..wire.messages.methods import TabletReport


def replica_samples(reports: Iterable[TabletReport]) -> Iterator[Sample]:
    """Replicas by state and role, terms, lags, transactions without an outcome."""
    kinds: Counter[tuple[str, str]] = Counter()
    terms = leaders = apply_lag = commit_lag = prepared = 0
    oldest = 0.0
    for report in reports:
        kinds[report.state, report.role] += 1
        terms += report.term
        leaders += report.is_serving
        apply_lag = max(apply_lag, report.commit_index - report.applied_index)
        if report.is_serving:
            commit_lag = max(commit_lag, report.last_index - report.commit_index)
            prepared += report.prepared
            oldest = max(oldest, report.prepared_seconds)
    yield from (Sample("nyala_replicas", count, kind) for kind, count in kinds.items())
    yield Sample("nyala_raft_terms", terms)
    yield Sample("nyala_raft_leaders", leaders)
    yield Sample("nyala_raft_apply_lag_entries", apply_lag)
    yield Sample("nyala_raft_commit_lag_entries", commit_lag)
    yield Sample("nyala_prepared_transactions", prepared)
    yield Sample("nyala_prepared_seconds", oldest)


def directory_samples(directories: Iterable[tuple[str, str]]) -> Iterator[Sample]:
    """Data directories by state; each is given by its error and by the reason for which it takes no writes."""
    states = Counter("failed" if error else "full" if full else "used" for error, full in directories)
    yield from (Sample("nyala_directories", states[state], (state,)) for state in ("used", "full", "failed"))
