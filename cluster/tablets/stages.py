"""Progress of the opening of a replica.

| state | event | next state |
|---|---|---|
| OPENING | it is open, and its files may reflect entries that are not applied | CATCHING_UP |
| OPENING | it is open, and every entry that its files may reflect is applied | CURRENT |
| OPENING | it cannot be opened | UNOPENED |
| CATCHING_UP | the last of these entries is applied | CURRENT |
"""

from __future__ import annotations

import threading
from enum import Enum

from ...model.state_table import StateTable


class Stage(Enum):
    """Progress of the opening of a replica; the table is on the module's page."""

    OPENING = "opening"
    CATCHING_UP = "catching up"
    CURRENT = "current"
    UNOPENED = "unopened"


_S = Stage
STATES = StateTable(
    _S.OPENING,
    {
        (_S.OPENING, "it is open, and its files may reflect entries that are not applied"): _S.CATCHING_UP,
        (_S.OPENING, "it is open, and every entry that its files may reflect is applied"): _S.CURRENT,
        (_S.OPENING, "it cannot be opened"): _S.UNOPENED,
        (_S.CATCHING_UP, "the last of these entries is applied"): _S.CURRENT,
    },
)


class Progress:
    """The stage of one replica. Changed by one thread at a time; others may read it."""

    def __init__(self) -> None:
        self._stage = STATES.first
        self._left_opening = threading.Event()

    @property
    def stage(self) -> Stage:
        """The present stage."""
        return self._stage

    def to(self, stage: Stage) -> None:
        """Goes on to the next stage."""
        self._stage = STATES.checked(self._stage, stage)
        self._left_opening.set()

    def wait_opened(self) -> None:
        """Returns when the stage is no longer OPENING."""
        self._left_opening.wait()
