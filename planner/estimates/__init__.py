"""Estimates: column statistics, numbers of rows, costs.

`statistics` follows the store's column statistics up through the plan, `cardinality` estimates rows from them, and
`cost` weighs what an operator does with these rows. The rules and the physical planner compare plans only by `cost`.
"""
