"""Numbers for integer keys that an INSERT does not name: SQLAlchemy's autoincrement, done on this side.

nyala has no sequences. The first number of a table is one more than its largest; after that they are counted here, per
store and table, so that threads never get the same one. As with a sequence, a number is never given twice, and a row
that was inserted with a number of its own above the counter makes a later INSERT fail (`AlreadyPresent`). One process
has a directory open at a time, which is why counting in the process is enough.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Final

from ...storage.store import Store

_lock: Final = threading.Lock()
_last: Final[weakref.WeakKeyDictionary[Store, dict[str, int]]] = weakref.WeakKeyDictionary()
"""The last number that was given, by store and by the id of the table: a table that is made anew starts anew."""


def next_number(store: Store, table: str, largest: Callable[[], int | None]) -> int:
    """A number above all that the table holds and all that were given before.

    `largest` reads the largest key of the table, None where it is empty; it is asked once.
    """
    key = store.table(table).id
    with _lock:
        last = _last.setdefault(store, {})
        if key not in last:
            last[key] = max(0, largest() or 0)
        last[key] += 1
        return last[key]
