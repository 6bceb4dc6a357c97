"""Connections and clients that are dropped without `close`: what they hold is released, with a `ResourceWarning`.

    last reference goes ──► finalizer ──┬── in the thread that dropped it
                                        └── in a new thread, if the cyclic collector dropped it

The cyclic collector runs in the middle of any code, also of code that holds the locks that closing a store needs, or
those of `threading`. Then another thread closes the store, started by `_thread`, which takes no locks. Every finalizer
and every `__del__` that may take a lock goes through here: a thread that waits for its own lock waits for ever.
"""

from __future__ import annotations

import _thread
import contextlib
import gc
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from .forks import finalize

_collecting = 0
"""Thread in which the cyclic collector runs; 0: in none."""


def _note_collector(phase: str, details: dict[str, Any]) -> None:
    global _collecting
    _collecting = threading.get_ident() if phase == "start" else 0


gc.callbacks.append(_note_collector)


def close_when_dropped(
    owner: object, name: str, close: Callable[[], object], kind: str = "connection to"
) -> weakref.finalize[..., object]:
    """Call `close` when `owner` is garbage, unless the finalizer that is returned has been detached by then.

    Parameters
    ----------
    owner : object
    name : str
        Store that the warning names; "": there is no warning, as for a store in memory.
    close : callable
        Must not refer to `owner`.
    kind : str
        What the warning calls the owner, in front of the name.
    """
    made = finalize(owner, _close, f"{kind} {name}" if name else "", close)
    made.atexit = False  # the process releases everything by its end
    return made


def close_outside_collector(close: Callable[[], object]) -> None:
    """Call `close`: here, or in a new thread if the cyclic collector runs in this one. For finalizers and `__del__`."""
    if _collecting == threading.get_ident():
        with contextlib.suppress(RuntimeError):  # the interpreter is about to end
            _thread.start_new_thread(_close_in_thread, (close,))
    else:
        close()


def _close(name: str, close: Callable[[], object]) -> None:
    close_outside_collector(close)
    if name:
        warnings.warn(
            f"a {name} was dropped without close(): its resources are released now; call close(), or use it in a with "
            "block",
            ResourceWarning,
            stacklevel=4,  # the line that dropped it
        )


def _close_in_thread(close: Callable[[], object]) -> None:
    # A thread that `threading` does not know would be listed as one for good.
    threading.Thread(target=close, name="nyala-abandoned", daemon=True).start()
