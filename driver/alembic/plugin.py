"""The plugin that Alembic loads by the entry point `nyala` of the group alembic.plugins.

Alembic loads it wherever both packages are installed, also in projects that do not use nyala, and before it has loaded
itself. Therefore this module imports nothing of SQLAlchemy or Alembic, and no failure leaves it.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

_log: Final = logging.getLogger("nyala.alembic")


class AlembicPlugin(ModuleType):
    """The module whose `setup` Alembic calls.

    Alembic before 1.20 iterates over the object that an entry point loads (its #1873), later releases take that object
    as the module: this is both.
    """

    def __iter__(self) -> Iterator[AlembicPlugin]:
        yield self

    def setup(self, plugin: Any) -> None:
        """Import `migrations`, whose class registers itself with Alembic."""
        try:
            importlib.import_module(".migrations", __package__)
        except Exception as error:  # an SQLAlchemy that is too old, for one
            _log.info("Alembic is used without nyala's migrations: %s", error)


PLUGIN: Final = AlembicPlugin("nyala")
