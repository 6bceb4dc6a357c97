"""The executor: runs physical plans over vectors, in parallel; columns are read and decoded as late as possible.

    PhysicalNode ── execute.open_node ──► Stream of morsels ── context.iterate ──► batches ──► Arrow

The life of a query:

1. `statements.statements.run` takes a bound statement and its plan and starts `execute.execute` under an
   `ExecutionContext`: store, threads, limits, the event that cancels it. Statements without a plan go to the store
   (`cataloging`, `listings`, `copying`); statements about one row are handled before, by the row path (`single_rows`).
2. `execute.open_node` opens the plan from the top. A leaf returns its morsels at once (`scans.scan`, `file_scan`,
   `operators.series`). A streaming operator wraps its input's (`operators.basic`, `join`). A pipeline breaker runs its
   input's morsels in the shared thread pool before it returns a stream (`aggregate`, `sorting.sort_keys`,
   `operators.top_rows`, `window`, a join's build side). `operators.recursive` runs its second part round by round.
3. A join opens its build side first. A summary of its keys goes down the probe side as `runtime_filters`, into the
   `ScanSpec`s of scans that start only then. Where servers scan, small scans are requested with the statement
   (`scans.prefetch`).
4. Within a morsel, a batch is a set of lazy columns. `expressions.evaluate` compiles expressions to closures that run
   on codes and dictionaries if possible. A filter or a join selects rows without reading other columns.
5. Groups and sort keys are integer codes (`kernels.groups`, `sorting.sort_keys`), join keys too (`join_keys`,
   `join_index`). Aggregates are computed from mergeable states (`aggregate_calls`, `accumulators`), window calls over
   the frames of sorted partitions (`window`, `window_frames`), scalar kernels live in `kernels`.
6. The consumer pulls; morsels run a few batches ahead of it, and results are returned in the stream's order. A
   statement that writes is a consumer: `changing` collects all rows, then writes them; `file_writing` writes files.

`Cancelled` and errors end all threads of a statement before they reach the caller.
"""

from typing import TYPE_CHECKING

from ..model.lazy_names import imported_at_first_use
from .files.files import LocalFiles
from .statements.results import StatementResult, listing

if TYPE_CHECKING:
    from .run.context import ExecutionContext

__all__ = ["ExecutionContext", "LocalFiles", "StatementResult", "listing"]

# Statements about one row run without plan and operators.
__getattr__ = imported_at_first_use(__name__, {"ExecutionContext": "run.context"})
