"""Bulk loads: sorted rowsets are written directly and published in one step."""
