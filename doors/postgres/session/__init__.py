"""One client's conversation after its start-up: messages in, bytes out, no sockets and no threads.

backend      the messages: simple and extended query, errors, what is skipped until Sync
statements   a text cut into statements, and what their first words say
transaction  the transaction block as PostgreSQL has it: implicit, failed, its notices
commands     statements that concern the connection alone: DEALLOCATE, DISCARD, LISTEN, SET of a driver's settings
client_settings   the settings that drivers set and read
portals      prepared statements and portals
descriptions types of a statement's parameters and the columns of its result, before it runs
known_groups statements on single rows in one step (one_step: with errors; bound_values: their values)
results      an execution to bytes: rows, suspended or not, and the tag of the command
copy_syntax  COPY with STDIN or STDOUT
copying      its data, in both directions
reports      errors of nyala as reports of the protocol
"""
