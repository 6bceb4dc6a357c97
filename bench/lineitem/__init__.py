"""The paper's tables 2 and 3 (section 6.2): four queries of lineitem and its load, beside other stores.

model      the queries, what an engine is, what is measured; when two answers are the same
engines/   the stores: nyala, nyala on Parquet, DuckDB, PostgreSQL, SQLite
worker     one engine in a process of its own
measuring  all of them in turn: `measure`
report     tables and charts of what was found: `show`, `section`
command    `nyala bench lineitem`
"""
