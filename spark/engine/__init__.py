"""Queries that nyala plans and Spark runs.

The life of a query with `engine = spark`:

1. `driver.session.external_engine` hands the planned query to `engine.SparkEngine`, or `frames.sql` plans one for a
   user's session.
2. `query.prepare` reads the keys of small build sides (`relations.filters`), cuts the logical plan into what runs
   beside the rows and the rest (`relations.cutting`, `relations.partial`), and deals each relation out to tasks
   (`relations.parts`).
3. `translate` writes the rest as one statement of Spark SQL, with a hint for each join (`hints`).
4. The relations become temporary views (`relations.views`), Spark makes a DataFrame of them and the statement, and the
   views are dropped.
5. When the DataFrame runs, each task reads its part in a Python worker (`relations.tasks`).
6. The answer comes back as Arrow, in nyala's types; what went wrong, as nyala's errors (`failures`).
"""
