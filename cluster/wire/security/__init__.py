"""TLS, roles, the audit log, and a limit on received bytes (`receive_guard`)."""
