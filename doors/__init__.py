"""Doors: servers for clients that do not speak nyala's own protocol.

    postgres    the protocol of PostgreSQL: psql, psycopg, asyncpg, JDBC, whatever has a PostgreSQL driver

A door turns what a client sends into calls of a `driver.connection.Connection`, one for each client, and results into
what the client expects. It knows nothing of tablets or plans. `nyala serve` opens doors of a directory, `nyala gateway`
of a cluster, `doors.postgres.serve` of a connection of this process.
"""
