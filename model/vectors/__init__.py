"""Columns of values in memory: vectors, their encodings, Arrow and Python values, row batches."""
