"""Binds statements that write: INSERT, UPSERT, UPDATE, DELETE, COPY.

INSERT binds a query and the target columns (`insert`); UPDATE and DELETE bind a query for the keys of the changed rows
and their new values (`update_delete`, `assignments`). `on_conflict` and `returning` add to both.
"""
