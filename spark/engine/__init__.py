"""Queries that nyala plans and Spark executes.

The life of a query with `engine = spark`:

1. `driver.session.external_engine` passes the planned query to `engine.SparkEngine`, or `frames.sql` plans one for a
   user's session.
2. `query.prepare` reads the keys of small build sides (`relations.filters`). It cuts the logical plan into fragments
   that tasks execute on the tablets, and the rest (`relations.cutting`, `relations.partial`). Each fragment becomes a
   relation, whose tablets are assigned to tasks (`relations.parts`).
3. `translate` writes the rest as one statement of Spark SQL, with a hint for each join (`hints`).
4. The relations become temporary views (`relations.views`). Spark builds a DataFrame from them and the statement, and
   the views are dropped.
5. When the DataFrame runs, each task reads its part in a Python worker (`relations.tasks`).
6. The result is returned as Arrow, in nyala's types; errors are translated to nyala's (`failures`).
"""
