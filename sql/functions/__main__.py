"""`python -m nyala.sql.functions`: print docs/functions.md."""

from __future__ import annotations

import sys

from .reference import page

sys.stdout.write(page())
