"""Reads files as rows of texts without loss: Spark lists the files and runs the tasks, and nyala reads them.

    listing     the files of a path or pattern, with the values of their partition directories
    raw_files   a file's bytes: decompressed, decoded, cut at record boundaries
    csv_scan    first pass over CSV: headers, records, quotes that are never closed
    csv_rows    second pass: batches of texts
    json_rows   both passes over JSON
    footers     the schemas of all Parquet files
    inference   types of texts, for tables that are made from a source

Spark's own readers of CSV and JSON replace undecodable bytes, split texts at line breaks and round numbers. Of two
equal keys, or two objects, they keep the first. So CSV has the dialect of nyala's COPY here, and JSON is RFC 8259.
"""
