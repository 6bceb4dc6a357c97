"""Writing from Spark: staged by task, published once.

    task ─ few rows ────────────► commit message ─┐
      └─── many rows ─► staging table ────────────┴─► commit: publish ─► target
                         (partition, attempt, row)       │
                                                         └─ record of jobs: writing, publishing, published, aborted

| module | is about |
|---|---|
| `operations` | what a job does to its table: insert, upsert, ..., and how that is repeated |
| `fitting` | rows as Spark gives them, as the table takes them |
| `tasks` | what one task does with its rows |
| `staging` | the tables that hold rows until a job is published |
| `jobs` | the record of jobs: who has come how far |
| `lease` | who may publish, while others might think that it is their turn |
| `publish`, `applying` | a job's rows into their table, once |
| `planning` | what a write is to do, from its options, its table and its columns |
| `batch`, `stream` | Spark's interfaces |

All but the last two know nothing of Spark.
"""
