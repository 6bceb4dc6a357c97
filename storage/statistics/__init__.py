"""Statistics of tables: sketches of rowsets and of values, ANALYZE.

Each column file carries a sketch of its values. `table_statistics` merges those of all rowsets for the planner and
keeps the result until the table has changed enough; `analysis` reads the rows for exact ones (`value_sketches`).
"""
