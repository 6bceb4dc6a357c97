"""What of a plan runs beside the rows, and the tasks that read it.

cutting ─ partial     which subplans; aggregations in two steps
filters               keys that are read beforehand, as predicates
parts                 which task reads which tablets and ranges of keys
tasks                 what a task does
views                 how Spark knows of it
"""
