"""The registry of metrics: sources, sums, histograms, names."""

from __future__ import annotations

import gc
import math
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.model import metrics
from nyala.model.metric_definitions import METRICS, MetricKind
from nyala.model.metrics import BOUNDS, Distribution, Histogram, Sample, collect, register

LAG = "nyala_reactor_lag_seconds"
"""Takes the greatest of its samples."""


class Source:
    def __init__(self, *samples: Sample) -> None:
        self._samples = samples

    def samples(self) -> Iterator[Sample]:
        yield from self._samples


@pytest.fixture(autouse=True)
def no_other_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_sources", [])


def test_equal_samples_of_several_sources_are_added_up_or_the_greatest_counts() -> None:
    one = Source(Sample("nyala_sessions", 2), Sample(LAG, 0.5, ("a",)), Sample("nyala_table_rows", 5, ("t",)))
    other = Source(Sample("nyala_sessions", 3), Sample(LAG, 0.25, ("a",)), Sample("nyala_table_rows", 7, ("u",)))
    register(one.samples)
    register(other.samples)
    assert [(sample.name, sample.labels, sample.value) for sample in collect()] == [
        (LAG, ("a",), 0.5),
        ("nyala_sessions", (), 5),
        ("nyala_table_rows", ("t",), 5),
        ("nyala_table_rows", ("u",), 7),
    ]


def test_a_source_that_is_gone_is_not_read() -> None:
    source = Source(Sample("nyala_sessions", 1))
    register(source.samples)
    assert collect()
    del source
    gc.collect()
    assert collect() == []


def test_a_source_that_fails_leaves_the_others() -> None:
    class Closed(Source):
        def samples(self) -> Iterator[Sample]:
            raise OSError("the store is closed")

    failing, working = Closed(), Source(Sample("nyala_sessions", 1))
    register(failing.samples)
    register(working.samples)
    assert [sample.value for sample in collect()] == [1]


@given(st.lists(st.floats(0, 100), max_size=50), st.sampled_from([0.5, 0.95, 1.0]))
def test_a_quantile_bounds_its_share_of_the_values(values: list[float], share: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.observe(value)
    found = histogram.read()
    assert found.count == len(values)
    assert found.total == pytest.approx(math.fsum(values))
    bound = found.quantile(share)
    if values:
        assert sum(value <= bound for value in values) >= share * len(values)
        lower = max((b for b in BOUNDS if b < bound), default=-1.0)
        assert sum(value <= lower for value in values) < share * len(values)


def test_distributions_add_up() -> None:
    one = Distribution((1, *[0] * 15, 2), 3.0)
    assert one.plus(one) == Distribution((2, *[0] * 15, 4), 6.0)
    assert one.quantile(1.0) == math.inf
    assert Histogram().read().quantile(0.5) == 0.0


def test_names_follow_the_rules_of_prometheus() -> None:
    for metric in METRICS.values():
        assert re.fullmatch(r"nyala_[a-z_]+", metric.name), metric
        assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER), metric
        assert metric.help and not metric.help.endswith("."), metric
        if metric.kind is MetricKind.HISTOGRAM:
            assert metric.name.endswith("_seconds"), metric
