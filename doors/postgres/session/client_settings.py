"""Settings that drivers set and read, and that concern the protocol alone.

nyala's own settings (`sql.settings`) are the session's. The others are here: those with an effect (the two timeouts,
`application_name`), those with one possible value (`client_encoding`), and those that drivers set for PostgreSQL's sake
and that nyala has no use for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from ....errors import ProgrammingError
from ....model.lazy_dataclass import dataclass
from ....model.version import __version__
from ....sql.settings import OWN_SETTINGS
from .reports import Refused

SERVER_VERSION: Final = "15.0"
"""The version of PostgreSQL whose behaviour drivers may expect."""
_UNITS: Final = {"": 1, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "us": 0.001}
_INVALID: Final = "22023"


@dataclass(frozen=True, slots=True)
class ClientSetting:
    """A setting: its value at first, how a value is read, and whether changes are reported to the client."""

    name: str
    default: str
    read: Callable[[str], str] | None = str
    """Checks and normalizes a value; None: it cannot be set."""
    is_reported: bool = False


def _letters(name: str) -> str:
    return "".join(char for char in name.lower() if char.isalnum())


def _only(*allowed: str) -> Callable[[str], str]:
    """Reads a setting that has one possible value, the first of these names for it."""

    def read(value: str) -> str:
        # As PostgreSQL compares names of encodings: a driver sends 'utf-8' with its quotes.
        if _letters(value) not in map(_letters, allowed):
            raise Refused(f"invalid value {value!r}: {allowed[0]} is supported", _INVALID)
        return allowed[0]

    return read


def _style(value: str) -> str:
    if not value.lower().startswith("iso"):
        raise Refused(f"invalid value {value!r}: dates are written in the style ISO", _INVALID)
    return "ISO, MDY"


def milliseconds(value: str) -> float:
    """A duration: a number of milliseconds, or with a unit. Raises `Refused`.

    >>> milliseconds("250"), milliseconds("1.5 s"), milliseconds("2min")
    (250.0, 1500.0, 120000.0)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*(us|ms|s|min|h|d)?\s*", value)
    if match is None:
        raise Refused(f"invalid value {value!r}: a number of milliseconds, or one with ms, s, min, h or d", _INVALID)
    return float(match[1]) * _UNITS[match[2] or ""]


def _duration(value: str) -> str:
    """A duration as PostgreSQL shows it."""
    total = round(milliseconds(value))
    if not total:
        return "0"
    unit = next(unit for unit in ("d", "h", "min", "s", "ms") if total % _UNITS[unit] == 0)
    return f"{total // int(_UNITS[unit])}{unit}"


def _switch(value: str) -> str:
    found = {"on": "on", "true": "on", "yes": "on", "1": "on", "off": "off", "false": "off", "no": "off", "0": "off"}
    if value.lower() not in found:
        raise Refused(f"invalid value {value!r}: on or off is needed", _INVALID)
    return found[value.lower()]


def _must_be_on(value: str) -> str:
    if _switch(value) != "on":
        raise Refused("a backslash in a text means itself: the value can only be on", _INVALID)
    return "on"


_FIXED: Final = {
    "server_version": f"{SERVER_VERSION} (nyala {__version__})",
    "server_version_num": "150000",
    "server_encoding": "UTF8",
    "integer_datetimes": "on",
    "is_superuser": "off",
    "in_hot_standby": "off",
    "max_identifier_length": "63",
    "lc_collate": "C",
    "lc_ctype": "C",
    "session_authorization": "nyala",
}
_UNUSED: Final = {
    "extra_float_digits": "1", "client_min_messages": "notice", "lock_timeout": "0", "idle_session_timeout": "0",
    "row_security": "on", "synchronous_commit": "on", "escape_string_warning": "on", "xmloption": "content",
    "check_function_bodies": "on", "default_tablespace": "", "default_table_access_method": "heap", "jit": "off",
    "default_with_oids": "off", "backslash_quote": "safe_encoding", "transaction_timeout": "0", "work_mem": "4MB",
    "enable_seqscan": "on", "enable_nestloop": "on", "geqo": "on", "force_parallel_mode": "off",
    "max_parallel_workers_per_gather": "2", "log_statement": "none", "application_user": "",
}  # fmt: skip
_REPORTED: Final = ("server_version", "server_encoding", "integer_datetimes", "is_superuser", "session_authorization")
CLIENT_SETTINGS: Final = {
    setting.name: setting
    for setting in (
        *(ClientSetting(name, value, None, name in _REPORTED) for name, value in _FIXED.items()),
        *(ClientSetting(name, value) for name, value in _UNUSED.items()),
        ClientSetting("application_name", "", str, True),
        ClientSetting("client_encoding", "UTF8", _only("UTF8", "UNICODE", "SQL_ASCII"), True),
        ClientSetting("datestyle", "ISO, MDY", _style, True),
        ClientSetting("intervalstyle", "postgres", _only("postgres"), True),
        ClientSetting("standard_conforming_strings", "on", _must_be_on, True),
        ClientSetting("bytea_output", "hex", _only("hex")),
        ClientSetting("statement_timeout", "0", _duration),
        ClientSetting("idle_in_transaction_session_timeout", "0", _duration),
    )
}
"""All settings by name, in lower case."""
_NAMES: Final = {"datestyle": "DateStyle", "intervalstyle": "IntervalStyle"}
"""Names under which settings are reported, if not in lower case."""
_SET: Final = re.compile(
    r"SET\s+(?:(SESSION|LOCAL)\s+)?(?!SESSION\b|LOCAL\b)([A-Za-z_][\w.]*)\s*(?:=|\bTO\b)\s*(.+)", re.I | re.S
)
_NAMES_OF: Final = re.compile(r"(?:RESET|SHOW)\s+([A-Za-z_][\w.]*)", re.I)
_SET_NAMES: Final = re.compile(r"SET\s+(?:(SESSION|LOCAL)\s+)?NAMES\s+(.+)", re.I | re.S)
_CLOSED: Final = frozenset({"temp_directory", "engine"})
"""Settings of nyala that would let a client choose what the server does outside of the store."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a statement about settings: the tag, what SHOW shows (name and value), and what is reported."""

    tag: str
    shown: tuple[str, str] | None = None
    reported: Mapping[str, str] | None = None


class ClientSettings:
    """The values of one client.

    Parameters
    ----------
    user : str
        Who has connected.
    given : mapping
        Values of the start-up message; they are what RESET returns to.
    """

    def __init__(self, user: str, given: Mapping[str, str]):
        self._defaults = {name: setting.default for name, setting in CLIENT_SETTINGS.items()}
        self._defaults["session_authorization"] = user
        self.unknown: dict[str, str] = {}
        """Values of the start-up message for settings that are not here."""
        for given_name, value in given.items():
            setting = CLIENT_SETTINGS.get(given_name.lower())
            if setting is None:
                self.unknown[given_name.lower()] = value
            elif setting.read is not None:
                self._defaults[setting.name] = setting.read(value)
        self._values = dict(self._defaults)
        self._before_local: dict[str, str] = {}
        """Values that return at the end of the transaction."""

    def seconds(self, name: str) -> float:
        """A timeout in seconds; 0: none."""
        value = self._values[name]
        return 0.0 if value == "0" else milliseconds(value) / 1000

    @property
    def has_timeout(self) -> bool:
        """True if statements have a timeout."""
        return self._values["statement_timeout"] != "0"

    @property
    def are_settled(self) -> bool:
        """True if the end of a transaction changes no setting."""
        return not self._before_local

    def values(self) -> dict[str, str]:
        """All values by name, in lower case."""
        return dict(self._values)

    def reported(self) -> dict[str, str]:
        """All values that are reported to clients."""
        names = [name for name, setting in CLIENT_SETTINGS.items() if setting.is_reported]
        return {_NAMES.get(name, name): self._values[name] for name in names}

    def run(self, text: str) -> Outcome | None:
        """Runs a statement about settings; None if it is about one of the session's."""
        if (match := _SET_NAMES.fullmatch(text)) is not None:
            return self._set(match[1], "client_encoding", match[2])
        if (match := _SET.fullmatch(text)) is not None:
            return self._set(match[1], match[2].lower(), match[3])
        match = _NAMES_OF.fullmatch(text)
        name = "" if match is None else match[1].lower()
        if name not in CLIENT_SETTINGS or name in OWN_SETTINGS:
            return None
        if text[:1] in "sS":
            return Outcome("SHOW", (_NAMES.get(name, name), self._values[name]))
        return self._assign("RESET", name, self._defaults[name])

    def _set(self, scope: str | None, name: str, written: str) -> Outcome | None:
        if name in _CLOSED:
            raise Refused(f"{name} cannot be set by a client of this server", "42501")
        setting = CLIENT_SETTINGS.get(name)
        if setting is None or name in OWN_SETTINGS:
            return None
        value = _value(written)
        if setting.read is None:
            raise Refused(f"parameter {name} cannot be changed", "55P02")
        before = self._values[name]
        outcome = self._assign("SET", name, self._defaults[name] if value is None else setting.read(value))
        if scope is not None and scope.upper() == "LOCAL":
            self._before_local.setdefault(name, before)
        else:
            self._before_local.pop(name, None)
        return outcome

    def _assign(self, tag: str, name: str, value: str) -> Outcome:
        changed = self._values[name] != value
        self._values[name] = value
        reported = {_NAMES.get(name, name): value} if changed and CLIENT_SETTINGS[name].is_reported else None
        return Outcome(tag, reported=reported)

    def reset(self) -> dict[str, str]:
        """Returns to the values of the start-up; what is to be reported."""
        before, self._values = self.reported(), dict(self._defaults)
        self._before_local.clear()
        return {name: value for name, value in self.reported().items() if before[name] != value}

    def end_transaction(self) -> dict[str, str]:
        """Undoes SET LOCAL; what is to be reported."""
        if not self._before_local:
            return {}
        before = self.reported()
        self._values.update(self._before_local)
        self._before_local.clear()
        return {name: value for name, value in self.reported().items() if before[name] != value}


def _value(written: str) -> str | None:
    """The value of a SET as a text; None for DEFAULT.

    >>> _value("'it''s'"), _value("ISO, DMY"), _value("DEFAULT")
    ("it's", 'ISO, DMY', None)
    """
    text = written.strip()
    if text.upper() == "DEFAULT":
        return None
    parts = re.findall(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[^,\s]+", text)
    if not parts:
        raise ProgrammingError("SET needs a value")
    return ", ".join(
        part[1:-1].replace(part[0] * 2, part[0]) if part[0] in "'\"" and len(part) > 1 else part for part in parts
    )
