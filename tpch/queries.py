"""The 22 queries, with the validation parameters of the specification, and the sort columns of their results."""

from __future__ import annotations

import gzip
from importlib import resources
from typing import Final

from ..errors import InterfaceError
from ..model.lazy_dataclass import dataclass

_PACKED: Final = frozenset({16})
"""The queries whose answers are compressed: 18,314 padded rows, 1.5 MB, take 70 kB."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query.

    `order` are the 0-based output columns of its ORDER BY, most significant first: rows that are equal in them may come
    in any order. `limit` is the maximum number of rows; any of the rows tied at that limit may be returned.
    """

    number: int
    order: tuple[int, ...] = ()
    limit: int | None = None

    @property
    def text(self) -> str:
        """The SQL, without a final semicolon."""
        file = resources.files(__package__) / "query_texts" / f"q{self.number}.sql"
        return file.read_text(encoding="utf-8").strip().rstrip(";")

    @property
    def answer(self) -> str:
        """The TPC's answer set at scale factor 1, as `check` reads it."""
        answers = resources.files(__package__) / "answers"
        if self.number in _PACKED:
            return gzip.decompress((answers / f"q{self.number}.out.gz").read_bytes()).decode()
        return (answers / f"q{self.number}.out").read_text(encoding="utf-8")


QUERIES: Final = (
    Query(1, (0, 1)),
    Query(2, (0, 2, 1, 3), limit=100),
    Query(3, (1, 2), limit=10),
    Query(4, (0,)),
    Query(5, (1,)),
    Query(6),
    Query(7, (0, 1, 2)),
    Query(8, (0,)),
    Query(9, (0, 1)),
    Query(10, (2,), limit=20),
    Query(11, (1,)),
    Query(12, (0,)),
    Query(13, (1, 0)),
    Query(14),
    Query(15, (0,)),
    Query(16, (3, 0, 1, 2)),
    Query(17),
    Query(18, (4, 3), limit=100),
    Query(19),
    Query(20, (0,)),
    Query(21, (1, 0), limit=100),
    Query(22, (0,)),
)


def select(numbers: str | None = None) -> list[Query]:
    """The queries of a list such as "1,6,10-12"; all of them for None.

    >>> [query.number for query in select("1,6,10-12")]
    [1, 6, 10, 11, 12]
    """
    if numbers is None:
        return list(QUERIES)
    chosen: list[Query] = []
    for part in numbers.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            low, high = int(first), int(last if dash else first)
        except ValueError:
            raise InterfaceError(f"{numbers!r}: give query numbers such as 1,6,10-12") from None
        if not 1 <= low <= high <= len(QUERIES):
            raise InterfaceError(f"there is no query {part.strip()}; there are 1 to {len(QUERIES)}")
        chosen += QUERIES[low - 1 : high]
    return chosen
