"""All suites by name, in the order of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from .cold import Cold
from .model import QuerySuite, SuiteResult
from .mutations import Mutations
from .queries import clickbench, functions, h2o, ssb, timeseries, tpcds, wide
from .runner import Setting, run_suite


class Suite(Protocol):
    """A suite of queries, or one of steps that has its own course."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def text(self) -> str: ...

    def missing(self) -> str | None: ...

    def run(self, setting: Setting) -> SuiteResult: ...


class OfQueries:
    """A `QuerySuite` as a `Suite`."""

    def __init__(self, suite: QuerySuite) -> None:
        self.suite = suite
        self.name, self.title, self.text = suite.name, suite.title, suite.text

    def missing(self) -> str | None:
        return self.suite.missing()

    def run(self, setting: Setting) -> SuiteResult:
        return run_suite(self.suite, setting)


QUERY_SUITES: Final = (
    clickbench.SUITE,
    wide.WIDE,
    wide.CLIFF,
    functions.SUITE,
    h2o.SUITE,
    ssb.SUITE,
    tpcds.SUITE,
    timeseries.SUITE,
)


def _all() -> Iterable[Suite]:
    yield from map(OfQueries, QUERY_SUITES)
    yield Mutations()
    yield Cold()


SUITES: Final[dict[str, Suite]] = {suite.name: suite for suite in _all()}
