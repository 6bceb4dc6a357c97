"""Plan fragments that Spark tasks execute on the tablets, as relations.

cutting ─ partial     selects the fragments; aggregations in two steps
filters               keys that are read in advance, as predicates
parts                 assigns tablets and key ranges to tasks
tasks                 the work of one task
views                 registers relations with Spark
"""
