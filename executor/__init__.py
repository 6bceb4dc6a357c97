"""The executor: physical plans run over vectors, in parallel, with nothing decoded or read before it must be.

    PhysicalNode ── execute.open_node ──► Stream of morsels ── context.iterate ──► batches ──► Arrow

The life of a query:

1. `statements.statements.run` takes a bound statement and its plan and starts `execute.execute` under an
   `ExecutionContext`: store, threads, limits, the event that cancels it. Statements without a plan go to the store
   (`cataloging`, `listings`, `copying`); those about one row have gone there already (`single_rows`).
2. `execute.open_node` opens the plan from the top. A leaf gives its morsels at once (`scans.scan`, `file_scan`,
   `operators.series`); a streaming operator wraps its input's (`operators.basic`, `join`); a pipeline breaker runs its
   input's morsels in the shared thread pool before it has a stream to give (`aggregate`, `sorting.sort_keys`,
   `operators.top_rows`, `window`, a join's build side). `operators.recursive` runs its second part round by round.
3. A join opens its build side first. What it learns of the keys goes down the probe side as `runtime_filters`, into the
   `ScanSpec`s of scans that start only then. Where servers scan, build sides that wait for nothing but their turn begin
   with the statement, in threads of their own (`early_builds`), and small scans are asked for
   (`scans.prefetch_policy`).
4. Within a morsel, a batch is a set of lazy columns. `expressions.evaluate` compiles expressions to closures that run
   on codes and dictionaries where they can; a filter or a join selects rows, which reads nothing further.
5. Groups and sort keys are integer codes (`aggregation.group_codes`, `sorting.sort_keys`), join keys too (`join_keys`,
   `join_index`). Aggregates are computed from mergeable states (`aggregate_calls`, `accumulators`), window calls over
   the frames of sorted partitions (`window`, `window_frames`), scalar kernels live in `kernels`.
6. The consumer pulls; morsels run a little ahead of it, and results come in the stream's order. A statement that writes
   is a consumer: `changing` collects the rows to the end, then writes all of them; `file_writing` writes files.

`Cancelled` and errors end all threads of a statement before they reach the caller.
"""

from .execute import execute
from .files.files import LocalFiles
from .run.context import ExecutionContext
from .run.operator_stats import Actual, Actuals
from .statements.results import StatementResult, listing
from .statements.statements import run

__all__ = ["Actual", "Actuals", "ExecutionContext", "LocalFiles", "StatementResult", "execute", "listing", "run"]
