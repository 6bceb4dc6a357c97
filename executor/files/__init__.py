"""Files as tables: inspection, scans, COPY FROM and COPY TO.

`files` inspects a file and gives its columns to the planner. `file_scan` reads it as batches: CSV through `csv_bytes`,
`csv_text` (rows and quotes) and `csv_values` (texts to values), Parquet through `parquet_files`. `copying` writes such
rows into a table, `file_writing` the other way.
"""
