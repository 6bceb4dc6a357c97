"""Statements about users, roles and rights.

    roles.py    CREATE, ALTER and DROP ROLE, membership, SET ROLE
    grants.py   GRANT and REVOKE of rights, ALTER TABLE ... OWNER TO, SHOW GRANTS

Each becomes steps of `model.access.steps`. That the current role may make them is checked here; `sql.rights` checks the
rights of all other statements.
"""
