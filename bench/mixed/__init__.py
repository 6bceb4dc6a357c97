"""Row-level writes while queries run: upserts into lineitem at a fixed rate, TPC-H's Q1 and Q6 beside them.

1. `measuring.measure` takes each of the engines (`engines`) through the phases: queries alone, upserts alone, both.
2. `open_loop.OpenLoop` upserts at the fixed rate; a latency counts from the moment at which the upsert was due.
3. `rows.RowStream` chooses the rows so that an answer of Q1 tells whether it saw one consistent snapshot.
4. `report` makes tables and a `Section` of what was found.
"""

from .measuring import measure
from .report import section, show

__all__ = ["measure", "section", "show"]
