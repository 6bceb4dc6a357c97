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
from collections import OrderedDict
from collections.abc import Callable

from .forks import finalize

_phases = OrderedDict.fromkeys(("start", "stop"))
"""The last one is what the cyclic collector began or ended last."""

# No Python function: the handler of a signal could run in it, and the `KeyboardInterrupt` that it raises would be lost,
# since an exception of a callback of the collector reaches no caller. This method is called with a phase and details,
# which count as true, so the phase moves to the end.
gc.callbacks.append(_phases.move_to_end)  # type: ignore[arg-type]


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


def is_collecting() -> bool:
    """True while the cyclic collector runs, in any thread."""
    return next(reversed(_phases)) == "start"


def close_outside_collector(close: Callable[[], object]) -> None:
    """Call `close`: here, or in a new thread if the cyclic collector runs in any. For finalizers and `__del__`."""
    if is_collecting():
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
