"""The log of slow statements, of all commands that run a server."""

from __future__ import annotations

import argparse

from ..doors.slow_log import SlowLog
from ..driver.session.statement_records import records
from ..errors import InterfaceError
from .arguments import log_retention


def slow_log(arguments: argparse.Namespace, has_clients: bool, clients: str, needed: str) -> SlowLog | None:
    """Opens the log of slow statements, if there is to be one; sets the time from which on they are slow.

    Parameters
    ----------
    arguments : argparse.Namespace
        With `slow_log`, `slow_seconds` and the options of logs.
    has_clients : bool
        True if this process executes statements.
    clients, needed : str
        Whose statements these are, and the options by which it would execute some; for the error.

    Raises `InterfaceError` if it has no statements, or the file cannot be opened.
    """
    seconds = records().slow_seconds if arguments.slow_seconds is None else arguments.slow_seconds
    if arguments.slow_log is None:
        if not seconds >= 0:
            raise InterfaceError(f"--slow-seconds {seconds:g}: a number of seconds is needed")
        records().slow_seconds = seconds
        return None
    if not has_clients:
        raise InterfaceError(
            f"--slow-log is for statements that this process executes, for {clients}; it needs {needed}"
        )
    return SlowLog(arguments.slow_log, seconds, log_retention(arguments))
