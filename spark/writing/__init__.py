"""Writes from Spark: staged by tasks, published once.

    task ─ few rows ────────────► commit message ─┐
      └─── many rows ─► staging table ────────────┴─► commit: publish ─► target
                         (partition, attempt, row)       │
                                                         └─ record of jobs: writing, publishing, published, aborted

| module | contents |
|---|---|
| `operations` | the operations of a job on its table: insert, upsert, ..., and their repeatable forms |
| `fitting` | conversion of Spark's rows to the table's |
| `tasks` | the work of one task with its rows |
| `staging` | the tables that hold rows until a job is published |
| `jobs` | the record of jobs: the progress of each |
| `lease` | the exclusive right to publish a job |
| `publish`, `applying` | a job's rows into their table, once |
| `planning` | the plan of a write, from its options, its table and its columns |
| `batch`, `stream` | Spark's interfaces |

All but the last two are independent of Spark.
"""
