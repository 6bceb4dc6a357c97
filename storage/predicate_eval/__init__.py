"""Predicates of a scan, brought to encoded pages and evaluated there."""
