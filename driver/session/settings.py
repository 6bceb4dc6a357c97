"""The settings of one connection: what connect() was given, and what SET has changed since."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from ...errors import StatementError
from ...executor import StatementResult, listing
from ...model.transactions import TransactionOptions
from ...model.types import STRING
from ...sql import bound
from ...sql.binding.transactions import OF_TRANSACTION
from ...sql.search_path import DEFAULT_PATH, parse_path
from ...sql.settings import SETTINGS, Setting
from . import engines

SettingStatement = bound.SetSetting | bound.ResetSettings | bound.ShowSettings
"""The statements that are about settings."""
_DEFAULTS = {"engine": engines.LOCAL, "timezone": "UTC"}
"""Values that are never absent."""


class Settings:
    """Values in plain units, by name. Threads may share it; a statement goes by what was set when it began.

    Parameters
    ----------
    given : mapping of str to value
        What RESET returns to; None or a missing name stands for the built-in behaviour.
    has_store : bool
        Are those that only connect() sets among them? They are not where the store is a cluster.
    """

    def __init__(self, given: Mapping[str, Any], has_store: bool = True):
        self._has_store = has_store
        self._given = {
            **_DEFAULTS,
            **{name: value for name, value in given.items() if value is not None},
        }
        self._values = dict(self._given)
        self._path: tuple[str | None, tuple[str, ...]] = (None, DEFAULT_PATH)
        """The text of search_path, None for the default, and the names in it."""
        self.transaction: TransactionOptions | None = None
        """The characteristics of the open transaction."""
        self._lock = threading.Lock()

    def get(self, name: str) -> Any:
        """One value, None where there is none."""
        return self._values.get(name)

    def source(self, name: str) -> str:
        """Origin of a value: "SET", "connect", or "default"."""
        if self._values.get(name) != self._given.get(name):
            return "SET"
        return "default" if self._given.get(name) in (None, _DEFAULTS.get(name)) else "connect"

    @property
    def search_path(self) -> tuple[str, ...]:
        """The names of search_path, in order; the same tuple as long as it is not set."""
        text = self._values.get("search_path")
        if self._path[0] != text:
            self._path = text, DEFAULT_PATH if text is None else parse_path(text)
        return self._path[1]

    def copy(self) -> Settings:
        """The same values, and the same ones to return to, apart from these."""
        copied = Settings(self._given, self._has_store)
        copied._values = dict(self._values)
        return copied

    def run(self, statement: SettingStatement) -> StatementResult:
        """Run SET, RESET or SHOW."""
        if isinstance(statement, bound.ShowSettings):
            return self._show(statement.name)
        with self._lock:
            values = dict(self._values)
            if isinstance(statement, bound.SetSetting):
                if statement.name == "engine":
                    engines.check(statement.value)
                values[statement.name] = statement.value
            else:
                for name in SETTINGS if statement.name is None else [statement.name]:
                    values[name] = self._given.get(name)
            self._values = values
        return StatementResult(None, iter(()))

    def _show(self, name: str | None) -> StatementResult:
        if name is not None and SETTINGS[name].read is None and not SETTINGS[name].foreign and not self._has_store:
            raise StatementError(f"{name} is not a setting of a cluster, but an option of its servers (nyala tserver)")
        if name is not None:
            return listing([name], [STRING], [[self._text(SETTINGS[name])]])
        settings = [s for s in SETTINGS.values() if not s.foreign and (s.read is not None or self._has_store)]
        columns = [[getattr(s, part) for s in settings] for part in ("name", "type", "range", "description")]
        columns.insert(1, [self._text(setting) for setting in settings])
        return listing(["name", "value", "type", "range", "description"], [STRING] * 5, columns)

    def texts(self) -> dict[str, str]:
        """The values of all settings as texts, by name."""
        return {name: self._text(setting) for name, setting in SETTINGS.items()}

    def _of_transaction(self, name: str) -> Any:
        options = self.transaction
        if options is None:
            return self._values.get(f"default_{name}")
        return options.isolation if name == "transaction_isolation" else options.read_only

    def _text(self, setting: Setting) -> str:
        value = self._values.get(setting.name)
        if setting.name in OF_TRANSACTION:
            value = self._of_transaction(setting.name)
        return setting.unset if value is None else setting.show(value)
