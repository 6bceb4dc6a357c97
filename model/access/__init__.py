"""Users, roles and rights: who may do what with which table. Plain values; no I/O.

    rights.py       the kinds of objects and rights, and their letters in PostgreSQL's access lists
    roles.py        `Access`: all roles, memberships and grants of a store, and what follows from them
    steps.py        changes of an `Access`, as CREATE USER and GRANT make them
    passwords.py    SCRAM-SHA-256 verifiers, which are kept instead of passwords
    scram.py        the two sides of an exchange by which a client proves that it has a password

A store's catalog has one `Access` (`model.store.Store.access`), which is replaced as a whole. Owners of tables and
views are kept with these (`model.schema.Table.owner`).
"""
