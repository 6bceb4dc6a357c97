"""Row-level writes during queries: upserts into lineitem at a fixed rate, concurrent with TPC-H's Q1 and Q6.

1. `measuring.measure` runs each of the engines (`engines`) through the phases: queries alone, upserts alone, both.
2. `open_loop.OpenLoop` upserts at the fixed rate; a latency is counted from the due time of the upsert.
3. `rows.RowStream` chooses the rows so that an answer of Q1 shows whether it was computed on a consistent snapshot.
4. `report` makes tables and a `Section` of the results.
"""

from .measuring import measure
from .report import section, show

__all__ = ["measure", "section", "show"]
