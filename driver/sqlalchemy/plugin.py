"""What Alembic loads by the entry point `nyala` of the group alembic.plugins."""

from __future__ import annotations

import importlib
from typing import Any


def setup(plugin: Any) -> None:
    """Load `migrations`, whose class makes itself known to Alembic.

    Not imported above: `migrations` imports Alembic, which comes by here before it has loaded itself.
    """
    importlib.import_module(".migrations", __package__)
