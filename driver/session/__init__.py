"""The life of a statement: parse, bind, plan, run, with the settings and engines of one connection.

`session.Session.run` looks for the text in `plan_cache`, and for its shape without literals (`literal_shapes`). A new
text is parsed, bound with its parameters (`bind_values`) and planned; a known one gets its values through
`parameter_fast_path`. `executions.Execution` then hands out the result while the executor produces it. Inserts of many
rows go to the store in batches (`insert_batches`), and queries of another engine through `external_engine`.
"""
