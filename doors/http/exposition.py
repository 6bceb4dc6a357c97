"""Metrics as text: OpenMetrics 1.0 for those that accept it, else Prometheus' own format 0.0.4.

The two differ in the name of a counter's family, in the last line, and in HELP, where quotation marks are escaped in
OpenMetrics alone: Prometheus refuses all of a text of its own format that has `\\"` there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ...model.metric_definitions import Metric
from ...model.metrics import BOUNDS, Distribution, Sample, by_name

OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_PLAIN_HELP: Final = str.maketrans({"\\": "\\\\", "\n": "\\n"})


def exposition(samples: Iterable[Sample], accepted: str = "") -> tuple[str, str]:
    """The text, and its media type by the header `Accept`."""
    is_open = "application/openmetrics-text" in accepted
    lines = [line for metric, group in by_name(samples) for line in _family(metric, group, is_open)]
    if is_open:
        lines.append("# EOF")
    return "\n".join(lines) + "\n", OPEN_METRICS if is_open else PLAIN


def _family(metric: Metric, samples: Iterable[Sample], is_open: bool) -> Iterator[str]:
    name = metric.family if is_open else metric.name
    yield f"# HELP {name} {metric.help.translate(_ESCAPES if is_open else _PLAIN_HELP)}"
    yield f"# TYPE {name} {metric.kind.value}"
    for sample in samples:
        if isinstance(sample.value, Distribution):
            yield from _histogram(sample, sample.value)
        else:
            yield f"{sample.name}{_labels(sample)} {_number(sample.value)}"


def _histogram(sample: Sample, value: Distribution) -> Iterator[str]:
    seen = 0
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), value.counts, strict=True):
        seen += count
        yield f"{sample.name}_bucket{_labels(sample, le=bound)} {seen}"
    yield f"{sample.name}_count{_labels(sample)} {seen}"
    yield f"{sample.name}_sum{_labels(sample)} {_number(value.total)}"


def _labels(sample: Sample, **more: str) -> str:
    pairs = {**sample.named_labels, **more}
    text = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs.items())
    return f"{{{text}}}" if text else ""


def _number(value: float) -> str:
    return repr(float(value)) if isinstance(value, float) and not value.is_integer() else str(int(value))
