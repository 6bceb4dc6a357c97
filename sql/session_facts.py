"""Facts about a session that its statements can read: user, database, process, settings."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final

from ..model.lazy_dataclass import dataclass
from .search_path import DEFAULT_PATH

SERVER_VERSION: Final = "15.0"
"""The version of PostgreSQL whose catalogs and syntax clients may expect."""
SERVER_VERSION_NUMBER: Final = 150000
_STARTED: Final = time.time_ns() // 1000
USER: Final = "nyala"
DATABASE: Final = "nyala"


def all_rights(catalog: Any) -> None:
    """No actor."""


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """Facts about a session.

    Attributes
    ----------
    user, database : names that functions such as `current_user` and `current_database()` return
    session_user : the user of the session, whatever role it has set
    actor : callable that returns, for a catalog, the `rights.Actor` of statements; None: they have all rights
    process : number that `pg_backend_pid()` returns
    started : when the process started, in microseconds since 1970
    settings : callable that returns the current values of settings by name, as texts
    search_path : callable that returns the names of the setting search_path, in order
    of_postgres : True for a client of PostgreSQL, whose CREATE TABLE may have no PRIMARY KEY (hidden numbers identify
        the rows), and columns of the types numeric (DECIMAL(38, 9)) and timestamptz (TIMESTAMP, in UTC)
    """

    user: str = USER
    database: str = DATABASE
    process: int = field(default_factory=os.getpid)
    started: int = field(default_factory=lambda: _STARTED)
    settings: Callable[[], Mapping[str, Any]] = dict
    session_user: str = USER
    actor: Callable[[Any], Any] = all_rights
    search_path: Callable[[], tuple[str, ...]] = lambda: DEFAULT_PATH
    of_postgres: bool = False


UNKNOWN_SESSION: Final = SessionFacts()
"""The facts for statements that are bound without a session."""
