"""Plans as text and as JSON, and expressions as SQL.

`plan_text` draws a plan as EXPLAIN shows it, with the expressions of `expression_text`; `plan_json` has the same data
for programs.
"""
