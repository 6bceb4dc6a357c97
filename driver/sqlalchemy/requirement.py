"""Refuses an SQLAlchemy that is too old, with the version that is needed."""

from __future__ import annotations

import re
from typing import Final

import sqlalchemy

OLDEST: Final = (2, 0, 31)
"""2.0.30 works up to Python 3.12, and nothing older does."""

if tuple(map(int, re.findall(r"\d+", sqlalchemy.__version__)[:3])) < OLDEST:
    raise ImportError(
        f"nyala needs SQLAlchemy {'.'.join(map(str, OLDEST))} or newer, this is {sqlalchemy.__version__}; "
        "try: pip install --upgrade sqlalchemy"
    )
