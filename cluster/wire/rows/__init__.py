"""Rows as they travel: writes, scans and their batches."""
