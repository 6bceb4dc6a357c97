"""Code run in forked children of a test."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from typing import Any


class Child:
    """A forked child that calls a function; `result` has what it returned, or raised, once it has ended.

    The child exits by `os._exit` unless `exits` is True: then by the interpreter's own way, with all finalizers.
    """

    def __init__(self, work: Callable[[], Any], exits: bool = False):
        self._read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12 and later: there are threads
            self.pid = os.fork()
        if self.pid == 0:
            os.close(self._read)
            _run(work, write, exits)
        os.close(write)

    def result(self, seconds: float = 60.0) -> Any:
        """Return value of the function. Its exception is raised here; a child that hangs is killed."""
        timer = threading.Timer(seconds, os.kill, (self.pid, signal.SIGKILL))
        timer.start()
        try:
            with os.fdopen(self._read, "rb") as pipe:
                data = pipe.read()
            status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        finally:
            timer.cancel()
        assert status == 0, f"the child ended with {status}"
        kind, value = pickle.loads(data)
        if kind == "raised":
            raise AssertionError(value)
        return value


def _run(work: Callable[[], Any], write: int, exits: bool) -> None:
    status = 1
    try:
        try:
            told = ("returned", work())
        except BaseException:
            told = ("raised", traceback.format_exc())
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(told, pipe)
        status = 0
    finally:
        if not exits:
            os._exit(status)
    _leave(status)


def _leave(status: int) -> None:
    """End as a script does, but for the caller's stack: threads, `atexit`, `weakref.finalize`, modules."""
    import atexit

    threading._shutdown()  # type: ignore[attr-defined]
    if (filesystems := sys.modules.get("pyarrow.fs")) is not None:
        # Ends threads that a fork does not have, if the parent has connected to S3: a segmentation fault.
        atexit.unregister(filesystems.ensure_s3_finalized)
    atexit._run_exitfuncs()
    os._exit(status)


def in_child(work: Callable[[], Any], exits: bool = False) -> Any:
    """The result of a function that a forked child calls."""
    return Child(work, exits).result()


def raised_by(call: Callable[[], Any]) -> str:
    """Class and text of what a call raises; "" if it returns."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
