"""Binds statements that write: INSERT, UPSERT, UPDATE, DELETE, COPY."""
