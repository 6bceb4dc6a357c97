"""SQLAlchemy dialect of nyala, for pandas, Alembic and BI tools.

    create_engine("nyala:///weather") ──► dialect ──► nyala.connect("weather")
                                            │
          compiler, ddl, types ─────────────┤ statements as text
          reflection ───────────────────────┤ information_schema in the form of the Inspector
          numbering ────────────────────────┘ integer keys that an INSERT does not name

`statements` has the constructs that SQLAlchemy lacks (`insert` with ON CONFLICT, `upsert`, `as_of`). Alembic's part is
`driver.alembic`. SQLAlchemy finds the dialect by the entry point `nyala` of the group sqlalchemy.dialects.
"""

from __future__ import annotations

from ...errors import NotRolledBackWarning
from . import requirement  # noqa: F401  # first: it refuses an SQLAlchemy in which the others fail obscurely
from .ddl import NotEnforcedWarning
from .dialect import NyalaDialect
from .statements import Insert, OnConflict, SystemTime, Upsert, as_of, insert, upsert
from .types import INTERVAL, TINYINT

__all__ = [
    "INTERVAL",
    "TINYINT",
    "Insert",
    "NotEnforcedWarning",
    "NotRolledBackWarning",
    "NyalaDialect",
    "OnConflict",
    "SystemTime",
    "Upsert",
    "as_of",
    "insert",
    "upsert",
]
