"""Queries that nyala plans and Spark runs."""
