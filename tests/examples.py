"""The number of examples that a property is tried with: `@settings(max_examples=examples(200))`.

A run tries a share of them. NYALA_EXAMPLES=1 tries all, NYALA_EXAMPLES=20 is for a night.
"""

from __future__ import annotations

import os

SHARE = float(os.environ.get("NYALA_EXAMPLES", "0.4"))
FEWEST = 15
"""No property is tried with fewer than these, or than its author's number where that is smaller."""


def examples(number: int) -> int:
    """The share of `number` examples that this run tries."""
    return max(round(number * SHARE), min(number, FEWEST))
