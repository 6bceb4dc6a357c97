"""Binds statements about the catalog: views, SHOW, DESCRIBE, settings, information_schema."""
