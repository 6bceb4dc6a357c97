"""Writes to a cluster: rows are routed to tablets, each piece is written exactly once.

routing     rows to tablets, pieces that fit into a message     batch_writes  writing pieces in parallel
call_ids    call ids, for exactly-once retries                  row_errors    errors of refused rows
single_rows the row path                                        joint_writes  batches of a served directory
row_requests  the request and the result of a row's write
"""
