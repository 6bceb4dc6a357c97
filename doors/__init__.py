"""Doors: servers for clients that do not speak nyala's own protocol.

    postgres    the protocol of PostgreSQL: psql, psycopg, asyncpg, JDBC, whatever has a PostgreSQL driver
    flight_sql  Arrow Flight SQL: ADBC, polars, the JDBC driver of Arrow
    http        pages, metrics and probes, for operators

`endpoints` says where a door may listen, `authentication` who may enter, `audit` is the log of what clients do,
`audited` writes the lines of one client.

A door turns what a client sends into calls of a `driver.connection.Connection`, one for each client, and results into
what the client expects. It knows nothing of tablets or plans. `nyala serve` opens doors of a directory, `nyala gateway`
of a cluster, `doors.postgres.serve` and `doors.flight_sql.serve` of a connection of this process.
"""
