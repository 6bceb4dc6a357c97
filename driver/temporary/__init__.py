"""Temporary tables and views of a session: a store in memory over which the session's own store is laid.

    session ──► OverlayStore ─┬─ pg_temp.*    a store in memory, which ends with the session
                              └─ all others   the store of the connection, unchanged

A session gets its overlay with its first CREATE TEMPORARY (`overlay`). An open transaction gets one, too
(`overlay_transaction`): a transaction of both stores, which COMMIT ends one after the other. Until then nothing is in
the way of a session's statements.

Temporary objects are in the schema "pg_temp", which is first on the search path. Reads of them are always of the
latest state: their store has a clock of its own, so a timestamp of the connection's store means nothing there.
"""
