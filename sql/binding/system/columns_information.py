"""The columns of the relations of `information_schema`, as PostgreSQL 15 has them, and behind them nyala's own.

Each relation is written `name oid column:type column:type ...`; a line that is indented continues the one before.
"""

COLUMNS = """
applicable_roles 13300 grantee:name role_name:name is_grantable:text
character_sets 13310 character_set_catalog:name character_set_schema:name character_set_name:name
  character_repertoire:name form_of_use:name default_collate_catalog:name default_collate_schema:name
  default_collate_name:name
check_constraints 13320 constraint_catalog:name constraint_schema:name constraint_name:name check_clause:text
collations 13330 collation_catalog:name collation_schema:name collation_name:name pad_attribute:text
column_privileges 13340 grantor:name grantee:name table_catalog:name table_schema:name table_name:name
  column_name:name privilege_type:text is_grantable:text
columns 13350 table_catalog:name table_schema:name table_name:name column_name:name ordinal_position:int4
  column_default:text is_nullable:text data_type:text character_maximum_length:int4 character_octet_length:int4
  numeric_precision:int4 numeric_precision_radix:int4 numeric_scale:int4 datetime_precision:int4 interval_type:text
  interval_precision:int4 character_set_catalog:name character_set_schema:name character_set_name:name
  collation_catalog:name collation_schema:name collation_name:name domain_catalog:name domain_schema:name
  domain_name:name udt_catalog:name udt_schema:name udt_name:name scope_catalog:name scope_schema:name scope_name:name
  maximum_cardinality:int4 dtd_identifier:name is_self_referencing:text is_identity:text identity_generation:text
  identity_start:text identity_increment:text identity_maximum:text identity_minimum:text identity_cycle:text
  is_generated:text generation_expression:text is_updatable:text column_type:text column_comment:text
  column_encoding:text column_compression:text column_block_size:int4
constraint_column_usage 13360 table_catalog:name table_schema:name table_name:name column_name:name
  constraint_catalog:name constraint_schema:name constraint_name:name
constraint_table_usage 13370 table_catalog:name table_schema:name table_name:name constraint_catalog:name
  constraint_schema:name constraint_name:name
domain_constraints 13380 constraint_catalog:name constraint_schema:name constraint_name:name domain_catalog:name
  domain_schema:name domain_name:name is_deferrable:text initially_deferred:text
domains 13390 domain_catalog:name domain_schema:name domain_name:name data_type:text character_maximum_length:int4
  character_octet_length:int4 character_set_catalog:name character_set_schema:name character_set_name:name
  collation_catalog:name collation_schema:name collation_name:name numeric_precision:int4 numeric_precision_radix:int4
  numeric_scale:int4 datetime_precision:int4 interval_type:text interval_precision:int4 domain_default:text
  udt_catalog:name udt_schema:name udt_name:name scope_catalog:name scope_schema:name scope_name:name
  maximum_cardinality:int4 dtd_identifier:name
element_types 13400 object_catalog:name object_schema:name object_name:name object_type:text
  collection_type_identifier:name data_type:text character_maximum_length:int4 character_octet_length:int4
  character_set_catalog:name character_set_schema:name character_set_name:name collation_catalog:name
  collation_schema:name collation_name:name numeric_precision:int4 numeric_precision_radix:int4 numeric_scale:int4
  datetime_precision:int4 interval_type:text interval_precision:int4 domain_default:text udt_catalog:name
  udt_schema:name udt_name:name scope_catalog:name scope_schema:name scope_name:name maximum_cardinality:int4
  dtd_identifier:name
enabled_roles 13410 role_name:name
foreign_tables 13420 foreign_table_catalog:name foreign_table_schema:name foreign_table_name:name
  foreign_server_catalog:name foreign_server_name:name
information_schema_catalog_name 13430 catalog_name:name
key_column_usage 13440 constraint_catalog:name constraint_schema:name constraint_name:name table_catalog:name
  table_schema:name table_name:name column_name:name ordinal_position:int4 position_in_unique_constraint:int4
parameters 13450 specific_catalog:name specific_schema:name specific_name:name ordinal_position:int4
  parameter_mode:text is_result:text as_locator:text parameter_name:name data_type:text character_maximum_length:int4
  character_octet_length:int4 character_set_catalog:name character_set_schema:name character_set_name:name
  collation_catalog:name collation_schema:name collation_name:name numeric_precision:int4 numeric_precision_radix:int4
  numeric_scale:int4 datetime_precision:int4 interval_type:text interval_precision:int4 udt_catalog:name
  udt_schema:name udt_name:name scope_catalog:name scope_schema:name scope_name:name maximum_cardinality:int4
  dtd_identifier:name parameter_default:text
referential_constraints 13460 constraint_catalog:name constraint_schema:name constraint_name:name
  unique_constraint_catalog:name unique_constraint_schema:name unique_constraint_name:name match_option:text
  update_rule:text delete_rule:text
role_table_grants 13470 grantor:name grantee:name table_catalog:name table_schema:name table_name:name
  privilege_type:text is_grantable:text with_hierarchy:text
routines 13480 specific_catalog:name specific_schema:name specific_name:name routine_catalog:name routine_schema:name
  routine_name:name routine_type:text module_catalog:name module_schema:name module_name:name udt_catalog:name
  udt_schema:name udt_name:name data_type:text character_maximum_length:int4 character_octet_length:int4
  character_set_catalog:name character_set_schema:name character_set_name:name collation_catalog:name
  collation_schema:name collation_name:name numeric_precision:int4 numeric_precision_radix:int4 numeric_scale:int4
  datetime_precision:int4 interval_type:text interval_precision:int4 type_udt_catalog:name type_udt_schema:name
  type_udt_name:name scope_catalog:name scope_schema:name scope_name:name maximum_cardinality:int4 dtd_identifier:name
  routine_body:text routine_definition:text external_name:text external_language:text parameter_style:text
  is_deterministic:text sql_data_access:text is_null_call:text sql_path:text schema_level_routine:text
  max_dynamic_result_sets:int4 is_user_defined_cast:text is_implicitly_invocable:text security_type:text
  to_sql_specific_catalog:name to_sql_specific_schema:name to_sql_specific_name:name as_locator:text
  created:timestamptz last_altered:timestamptz new_savepoint_level:text is_udt_dependent:text
  result_cast_from_data_type:text result_cast_as_locator:text result_cast_char_max_length:int4
  result_cast_char_octet_length:int4 result_cast_char_set_catalog:name result_cast_char_set_schema:name
  result_cast_char_set_name:name result_cast_collation_catalog:name result_cast_collation_schema:name
  result_cast_collation_name:name result_cast_numeric_precision:int4 result_cast_numeric_precision_radix:int4
  result_cast_numeric_scale:int4 result_cast_datetime_precision:int4 result_cast_interval_type:text
  result_cast_interval_precision:int4 result_cast_type_udt_catalog:name result_cast_type_udt_schema:name
  result_cast_type_udt_name:name result_cast_scope_catalog:name result_cast_scope_schema:name
  result_cast_scope_name:name result_cast_maximum_cardinality:int4 result_cast_dtd_identifier:name
schemata 13490 catalog_name:name schema_name:name schema_owner:name default_character_set_catalog:name
  default_character_set_schema:name default_character_set_name:name sql_path:text
sequences 13500 sequence_catalog:name sequence_schema:name sequence_name:name data_type:text numeric_precision:int4
  numeric_precision_radix:int4 numeric_scale:int4 start_value:text minimum_value:text maximum_value:text
  increment:text cycle_option:text
table_constraints 13510 constraint_catalog:name constraint_schema:name constraint_name:name table_catalog:name
  table_schema:name table_name:name constraint_type:text is_deferrable:text initially_deferred:text enforced:text
  nulls_distinct:text
table_privileges 13520 grantor:name grantee:name table_catalog:name table_schema:name table_name:name
  privilege_type:text is_grantable:text with_hierarchy:text
tables 13530 table_catalog:name table_schema:name table_name:name table_type:text self_referencing_column_name:name
  reference_generation:text user_defined_type_catalog:name user_defined_type_schema:name user_defined_type_name:name
  is_insertable_into:text is_typed:text commit_action:text table_comment:text
triggers 13540 trigger_catalog:name trigger_schema:name trigger_name:name event_manipulation:text
  event_object_catalog:name event_object_schema:name event_object_table:name action_order:int4 action_condition:text
  action_statement:text action_orientation:text action_timing:text action_reference_old_table:name
  action_reference_new_table:name action_reference_old_row:name action_reference_new_row:name created:timestamptz
user_defined_types 13550 user_defined_type_catalog:name user_defined_type_schema:name user_defined_type_name:name
  user_defined_type_category:text is_instantiable:text is_final:text ordering_form:text ordering_category:text
  ordering_routine_catalog:name ordering_routine_schema:name ordering_routine_name:name reference_type:text
  data_type:text character_maximum_length:int4 character_octet_length:int4 character_set_catalog:name
  character_set_schema:name character_set_name:name collation_catalog:name collation_schema:name collation_name:name
  numeric_precision:int4 numeric_precision_radix:int4 numeric_scale:int4 datetime_precision:int4 interval_type:text
  interval_precision:int4 source_dtd_identifier:name ref_dtd_identifier:name
view_column_usage 13560 view_catalog:name view_schema:name view_name:name table_catalog:name table_schema:name
  table_name:name column_name:name
view_table_usage 13570 view_catalog:name view_schema:name view_name:name table_catalog:name table_schema:name
  table_name:name
views 13580 table_catalog:name table_schema:name table_name:name view_definition:text check_option:text
  is_updatable:text is_insertable_into:text is_trigger_updatable:text is_trigger_deletable:text
  is_trigger_insertable_into:text
"""
