"""TLS, roles and the audit log."""
