"""Estimates: column statistics, numbers of rows, costs."""
