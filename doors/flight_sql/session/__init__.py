"""One client's conversation: statements in, Arrow batches out; no Flight calls, no threads.

client_session   the session: its connection, results, prepared statements
transactions     transactions and savepoints by their handles
prepared         prepared statements: parameters and columns before they are run
results          results that are kept until they are read, batch by batch
parts            queries that several readers share, cut by tablets
part_tickets     the signed tickets of these parts
updates          statements without rows, also for batches of parameters
ingestion        bulk loads into new and existing tables
session_options  SetSessionOptions and GetSessionOptions
reports          errors of nyala as errors of Flight
"""
