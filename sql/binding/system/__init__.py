"""The system catalogs, PostgreSQL's own, those of the standard and nyala's, with the functions that read them.

    columns_a_to_o  columns_p_to_z  type_numbers     what PostgreSQL 15 defines: columns, types, numbers
    columns_information  columns_nyala               columns of information_schema and nyala_catalog
          └───────────────┴──────────────┤
                definitions  types       │           parsed; nyala's types as PostgreSQL's
                                       objects       the store's tables and views with their numbers
       pg_objects  pg_server  information_schema     the rows of relations
                                      relations      a relation by name, as a query of constant rows
                                       lookups       texts by number, for functions such as pg_get_viewdef
                                      functions      binds the calls of these functions

Rows are made from the catalog when a statement is bound, and are constants to the planner. Those of nyala_catalog come
from `model.observations`, except `partitions`.
"""
