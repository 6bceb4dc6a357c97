"""Facts about the server and its catalog for clients, as Arrow tables with the columns that Flight SQL prescribes.

columns      types of columns: the fields of Arrow schemas, with precision, scale and name of the type
catalogs     catalogs, schemas, tables and keys, from information_schema
sql_info     facts about the server and its SQL
xdbc_types   the types of columns as JDBC and ODBC describe them
commands     the commands by name: which table each gets
"""
