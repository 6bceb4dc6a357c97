"""Describes statements before they run: types of their parameters, columns of their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ....driver.session.executions import Execution
from ....driver.session.plan_cache import Version
from ....driver.session.session import Session
from ....sql import bound
from ....sql.binding.parameter_types import infer_parameters
from ..values.types import type_of
from . import commands
from .client_settings import ClientSettings
from .names import result_columns
from .portals import Description, PreparedStatement
from .statements import Kind, StatementText

_MOST: Final = 200
_LONGEST: Final = 10_000
"""Characters of a text whose description is kept."""


class Descriptions:
    """Descriptions of one client's statements.

    They are kept by the statement, and also by its text, since many drivers parse a text again for each execution.

    Parameters
    ----------
    session : Session
    settings : ClientSettings
    run : callable
        Runs a statement of the session.
    """

    def __init__(self, session: Session, settings: ClientSettings, run: Callable[[str], Execution]):
        self._session = session
        self._settings = settings
        self._run = run
        self._kept: dict[tuple[str, tuple[int, ...]], Description] = {}
        """By text and given types, the least recently used one first."""

    def of(self, prepared: PreparedStatement, statement: StatementText) -> Description:
        """The description of a prepared statement; it is kept until the catalog or the search path changes.

        Raises as `infer_parameters` does.
        """
        version = self._session.plans.version
        if prepared.description is None or prepared.description.version != version:
            prepared.description = self._by_text(prepared, statement, version)
        return prepared.description

    def _by_text(self, prepared: PreparedStatement, statement: StatementText, version: Version) -> Description:
        key = statement.text, prepared.oids
        found = self._kept.pop(key, None)
        if found is None or found.version != version:
            found = self._described(prepared, statement, version)
        if len(statement.text) <= _LONGEST:
            self._kept[key] = found
            if len(self._kept) > _MOST:
                del self._kept[next(iter(self._kept))]
        return found

    def _described(self, prepared: PreparedStatement, statement: StatementText, version: Version) -> Description:
        if statement.kind is Kind.SETTING:
            return Description(version, (), commands.shown_columns(self._settings, self._session, statement))
        if statement.kind not in (Kind.QUERY, Kind.CHANGE, Kind.OTHER):
            return Description(version, (), None)
        (parsed,) = self._session.parse(statement.text)
        found, types = infer_parameters(
            parsed, self._session.store, [type_of(oid) for oid in prepared.oids], self._session.facts
        )
        if isinstance(found, bound.WITH_QUERY):
            return Description(version, types, result_columns(found))
        # A listing, such as DESCRIBE: its columns are known once it has run, and it changes nothing.
        execution = self._run(statement.text) if statement.kind is Kind.QUERY else None
        columns = None if execution is None else execution.columns
        if execution is not None:
            execution.close()
        return Description(version, types, columns)
