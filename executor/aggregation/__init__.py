"""GROUP BY: the grouping of rows, and the states of aggregate functions.

`aggregate` opens the operator. `aggregate_calls` splits each SQL call into `accumulators`; `kernels.groups` numbers the
groups of a batch. Each thread collects groups with their states (`partials`), which are merged at the end
(`partial_collector`), or by way of temporary files if they do not fit in memory (`spilled_groups`).
"""
