"""Which morsel of a scan reads which tokens: one that has few rows goes on with the next token, unless that is begun.

    tokens       0   1   2   3   4
    morsel 0     7   2   5   │          14 rows for the operators above, in one batch
    morsel 1         ·       │          its token was read already: no rows
    morsel 3                 9   1      another thread had begun it

An operator takes some hundred microseconds for a batch, and much of that for a morsel, of however few rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from ...model.vectors.vector import Batch


class TokenShares:
    """Safe for several threads.

    Parameters
    ----------
    count : int
        Of the tokens, and the morsels.
    few_rows : int
        A morsel with fewer goes on.
    """

    def __init__(self, count: int, few_rows: int):
        self._few_rows = few_rows
        self._lock = threading.Lock()
        """Guards what follows."""
        self._readers: list[int | None] = [None] * count
        """Which morsel reads each token, each time that it is run."""

    def read(self, morsel: int, read: Callable[[int], Iterator[Batch]]) -> Iterator[Batch]:
        """The batches of a morsel's tokens, in the tokens' order; `read` gives those of one."""
        rows = 0
        for token in range(morsel, len(self._readers)):
            if not self._is_read_by(morsel, token, rows < self._few_rows):
                return
            for batch in read(token):
                rows += batch.length
                yield batch

    def _is_read_by(self, morsel: int, token: int, may_take: bool) -> bool:
        with self._lock:
            if self._readers[token] is None and may_take:
                self._readers[token] = morsel
            return self._readers[token] == morsel
