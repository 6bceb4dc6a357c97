"""The paper's tables 2 and 3 (section 6.2): four queries of lineitem and its load, against other stores.

model      the queries, the engine protocol, the results; comparison of answers
engines/   the stores: nyala, nyala on Parquet, DuckDB, PostgreSQL, SQLite
worker     one engine in a separate process
measuring  all of them in turn: `measure`
report     tables and charts of the results: `show`, `section`
command    `nyala bench lineitem`
"""
