"""Settings of a connection for SET, RESET and SHOW: names, types, ranges, descriptions, in one table.

    SET name = value ─ read ─► the value in plain units (bytes, a number)   RESET name ─► what connect() was given
    SHOW name ◄─ shown ─ a text

Settings of the whole store are included: SHOW displays them, and only connect() sets them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ..errors import InterfaceError, NotSupportedError, StatementError, did_you_mean
from ..model.lazy_dataclass import dataclass
from ..model.transactions import Isolation
from .client_settings import FIXED, KEPT, READ, fix, keep

MOST_THREADS: Final = 1024
_UNITS: Final = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Parameters
    ----------
    name : str
    type : str
        The kind of its values, for display.
    range : str
        The allowed values, for display.
    description : str
    read : callable, optional
        Converts a Python value of a statement to plain units; raises `StatementError`. None: only connect() sets it.
    show : callable
        A value in plain units as text.
    unset : str
        The text that SHOW displays if there is no value.
    foreign : bool
        True for a setting of PostgreSQL's clients (`client_settings`), which SHOW ALL leaves out.
    """

    name: str
    type: str
    range: str
    description: str
    read: Callable[[Any], Any] | None = None
    show: Callable[[Any], str] = str
    unset: str = "default"
    foreign: bool = False


def parse_bytes(value: int | str, name: str = "memory_limit") -> int:
    """Bytes from a number or a text with a unit of 1024's powers; `name` is the option's, for the error.

    >>> parse_bytes("1.5 GB"), parse_bytes(4096)
    (1610612736, 4096)
    """
    match = re.fullmatch(r"\s*([0-9.]+)\s*([KMGT]?)(I?B)?\s*", str(value).upper())
    try:
        amount = float(match[1]) * _UNITS[match[2] + "B"] if match else 0.0
    except ValueError:
        amount = 0.0
    if amount < 1:
        raise InterfaceError(f"{name}={value!r}: give bytes, or a text such as '2GB'")
    return int(amount)


LEAST_RATE: Final = 1 << 20
"""Bytes per second, of a ceiling of I/O: below it, flushes would fall behind slow writers."""


def parse_rate(value: int | str, name: str = "maintenance_io_limit") -> int:
    """Bytes per second, as `parse_bytes`; `InterfaceError` if they are below `LEAST_RATE`.

    >>> parse_rate("20MB")
    20971520
    """
    rate = parse_bytes(value, name)
    if rate < LEAST_RATE:
        raise InterfaceError(
            f"{name}={value!r}: bytes per second, from 1MB, such as '50MB'; without it there is no limit"
        )
    return rate


def show_bytes(size: int) -> str:
    """Bytes with the largest unit that represents them exactly, as `parse_bytes` reads them.

    >>> show_bytes(1610612736), show_bytes(1 << 30), show_bytes(1000)
    ('1536MB', '1GB', '1000B')
    """
    unit = next(unit for unit in ("TB", "GB", "MB", "KB", "B") if size % _UNITS[unit] == 0)
    return f"{size // _UNITS[unit]}{unit}"


def _threads(value: Any) -> int:
    count = int(value) if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,9}\s*", value) else value
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_THREADS:
        raise StatementError(f"threads is a whole number from 1 to {MOST_THREADS}, not {value}")
    return count


def _memory(value: Any) -> int | None:
    if isinstance(value, str) and value.lower() in ("none", "unlimited"):
        return None
    if not isinstance(value, bool) and isinstance(value, int | str):
        try:
            return parse_bytes(value)
        except InterfaceError:
            pass
    raise StatementError(f"memory_limit is a number of bytes, a text such as '256MB', or none, not {value}")


def _folder(value: Any) -> str:
    if not isinstance(value, str) or not Path(value).is_dir():
        raise StatementError(f"temp_directory is a folder that is there, not {value}")
    return value


def _engine(value: Any) -> str:
    if not isinstance(value, str):
        raise StatementError(f"engine is the name of one, not {value}")
    return value.lower()


def _timezone(value: Any) -> str:
    if str(value).upper() not in ("UTC", "Z", "GMT", "ETC/UTC", "0"):
        raise NotSupportedError(
            f"time zones are not supported: the time zone is UTC and cannot be set to {value}; add a fixed distance, "
            "such as t + INTERVAL '2' HOUR, or convert in Python"
        )
    return "UTC"


def _isolation(value: Any) -> Isolation:
    found = " ".join(str(value).replace("_", " ").upper().split())
    if not isinstance(value, bool) and isinstance(value, str) and found in _LEVELS:
        return _LEVELS[found]
    levels = [level.value for level in Isolation]
    raise StatementError(f"an isolation level is {', '.join(levels[:-1])} or {levels[-1]}, not {value}")


def _switch(name: str) -> Callable[[Any], bool]:
    def read(value: Any) -> bool:
        found = _SWITCHES.get(str(value).lower())
        if found is None:
            raise StatementError(f"{name} is on or off, not {value}")
        return found

    return read


_LEVELS: Final = {level.value: level for level in Isolation}
_SWITCHES: Final = {
    **dict.fromkeys(("on", "true", "yes", "1"), True),
    **dict.fromkeys(("off", "false", "no", "0"), False),
}


def show_isolation(level: Isolation) -> str:
    """The level as PostgreSQL shows it.

    >>> show_isolation(Isolation.REPEATABLE_READ)
    'repeatable read'
    """
    return level.value.lower()


def show_switch(value: bool) -> str:
    """`on` or `off`."""
    return "on" if value else "off"


_LEVEL_RANGE: Final = ", ".join(show_isolation(level) for level in Isolation)

OWN_SETTINGS: Final = {
    setting.name: setting
    for setting in (
        Setting(
            "ddl_commits",
            "switch",
            "on, off",
            "On clusters: CREATE, ALTER and DROP in a transaction commit it and begin another (off: they are refused)",
            _switch("ddl_commits"),
            show_switch,
            "off",
        ),
        Setting(
            "default_transaction_isolation",
            "words",
            _LEVEL_RANGE,
            "The isolation level of transactions that name none",
            _isolation,
            show_isolation,
            "snapshot",
        ),
        Setting(
            "default_transaction_read_only",
            "switch",
            "on, off",
            "Transactions are READ ONLY unless they say READ WRITE",
            _switch("default_transaction_read_only"),
            show_switch,
            "off",
        ),
        Setting(
            "durability",
            "word",
            "fsync, os",
            "What an acknowledged write survives: a power failure (fsync), or the end of the process (os)",
        ),
        Setting(
            "engine",
            "word",
            "nyala, spark",
            "What runs queries: nyala's own executor, or Spark over what the tablets give it",
            _engine,
        ),
        Setting("history_seconds", "whole number", "from 0", "How many seconds back the past stays readable"),
        Setting(
            "maintenance_io_limit",
            "bytes",
            "from 1MB",
            "How many bytes per second background work may read and write",
            show=show_bytes,
            unset="none",
        ),
        Setting(
            "memory_limit",
            "bytes",
            "from 1, or none",
            "How much memory the state of one statement may take; what does not fit goes to temporary files",
            _memory,
            show_bytes,
            "none",
        ),
        Setting(
            "store_memory",
            "bytes",
            "from 1",
            "Memory for rows that are not on disk yet and for pages that were read, of all stores of the process",
            show=show_bytes,
        ),
        Setting(
            "temp_directory",
            "text",
            "a folder",
            "Where statements put what their memory_limit does not hold: by default where the store is",
            _folder,
            unset="the store's folder",
        ),
        Setting("threads", "whole number", f"1 to {MOST_THREADS}", "How many threads one statement may use", _threads),
        Setting("timezone", "word", "UTC", "The time zone of the session", _timezone),
        Setting(
            "transaction_isolation",
            "words",
            _LEVEL_RANGE,
            "The isolation level of the open transaction; outside of one, of the next",
            _isolation,
            show_isolation,
            "snapshot",
        ),
        Setting(
            "transaction_read_only",
            "switch",
            "on, off",
            "The open transaction is READ ONLY; outside of one, the next",
            _switch("transaction_read_only"),
            show_switch,
            "off",
        ),
    )
}
"""nyala's own settings by name, ascending."""
_OF_CLIENTS: Final = {
    **{name: Setting(name, "text", "any", text, keep(name), unset=value, foreign=True)
       for name, (value, text) in KEPT.items()},
    **{name: Setting(name, "text", value, text, fix(name, value, same), unset=value, foreign=True)
       for name, (value, same, text) in FIXED.items()},
    **{name: Setting(name, "text", value, text, unset=value, foreign=True) for name, (value, text) in READ.items()},
}  # fmt: skip
SETTINGS: Final = {**OWN_SETTINGS, **_OF_CLIENTS}
"""All settings by name: nyala's own, ascending, and those of PostgreSQL's clients."""


def read_option(name: str, value: Any) -> Any:
    """The value passed to connect() for a setting, in plain units; raises `InterfaceError` if it is not valid."""
    read = SETTINGS[name].read
    assert read is not None
    try:
        return read(value)
    except StatementError as error:
        raise InterfaceError(str(error)) from None


def find_setting(name: str) -> Setting:
    """One setting; raises `StatementError` with similar names if there is none."""
    setting = SETTINGS.get(name.lower())
    if setting is None:
        raise StatementError(f"there is no setting {name}{did_you_mean(name.lower(), list(OWN_SETTINGS), 'there are')}")
    return setting
