"""Kernels of dates, timestamps and intervals.

`temporal` extracts the usual parts, truncates, and adds intervals; `calendar` has the further parts and units, ages,
bins and construction. `intervals` computes with intervals themselves. `date_templates` parses by
template, `date_writing` formats.
"""
