"""Progress of the opening of a replica.

| state | event | next state |
|---|---|---|
| OPENING | it is open, and its files may reflect entries that are not applied | CATCHING_UP |
| OPENING | it is open, and every entry that its files may reflect is applied | CURRENT |
| OPENING | it cannot be opened | UNOPENED |
| CATCHING_UP | the last of these entries is applied | CURRENT |
"""

from __future__ import annotations

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
