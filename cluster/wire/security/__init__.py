"""TLS, roles, the audit log, and a limit on received bytes (`receive_guard`).

`tls_files` loads the certificates, `tls` makes the two sides trust each other, and `access` gives a caller the role
that its certificate names. Each method has a least role; what administrators call is logged by `audit`.
"""
