"""Kernels of dates, timestamps and intervals.

`temporal` extracts the usual parts, truncates, and adds intervals; `calendar` has the further parts and units, ages,
bins and construction. `intervals` computes with intervals themselves. `date_templates` has the parts of templates and
reads one text by them, `date_reading` columns; `date_writing` formats.
"""
