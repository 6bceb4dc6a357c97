"""The messages of Flight and Flight SQL that this server reads or writes.

Each line declares a message: its name, and its fields as `name:type`. Fields are numbered from 1 unless `=number` says
otherwise. A type ends in `?` for a field that may be absent, and in `*` for a repeated one. A type that is no scalar is
the name of another message of the same package. Enumerations are declared as int32, which has the same bytes; a map is
a repeated message of a key and a value. A line that is indented continues the one before.
"""

from __future__ import annotations

from typing import Final

FLIGHT: Final = """
CancelFlightInfoRequest info:FlightInfo
CancelFlightInfoResult status:int32
FlightInfo schema:bytes flight_descriptor:FlightDescriptor endpoint:FlightEndpoint* total_records:int64
  total_bytes:int64 ordered:bool app_metadata:bytes
FlightDescriptor type:int32 cmd:bytes path:string*
FlightEndpoint ticket:Ticket location:Location* app_metadata:bytes=4
Ticket ticket:bytes
Location uri:string
CloseSessionRequest
CloseSessionResult status:int32
SetSessionOptionsRequest session_options:OptionEntry*
OptionEntry key:string value:OptionValue
OptionValue string_value:string? bool_value:bool? int64_value:sfixed64? double_value:double?
  string_list_value:StringList
StringList values:string*
SetSessionOptionsResult errors:ErrorEntry*
ErrorEntry key:string value:OptionError
OptionError value:int32
GetSessionOptionsRequest
GetSessionOptionsResult session_options:OptionEntry*
"""
"""The package `arrow.flight.protocol`."""

FLIGHT_SQL: Final = """
CommandGetSqlInfo info:uint32*
CommandGetXdbcTypeInfo data_type:int32?
CommandGetCatalogs
CommandGetDbSchemas catalog:string? db_schema_filter_pattern:string?
CommandGetTables catalog:string? db_schema_filter_pattern:string? table_name_filter_pattern:string? table_types:string*
  include_schema:bool
CommandGetTableTypes
CommandGetPrimaryKeys catalog:string? db_schema:string? table:string
CommandGetExportedKeys catalog:string? db_schema:string? table:string
CommandGetImportedKeys catalog:string? db_schema:string? table:string
CommandGetCrossReference pk_catalog:string? pk_db_schema:string? pk_table:string fk_catalog:string? fk_db_schema:string?
  fk_table:string
CommandStatementQuery query:string transaction_id:bytes?
CommandStatementUpdate query:string transaction_id:bytes?
CommandStatementSubstraitPlan plan:SubstraitPlan transaction_id:bytes?
CommandPreparedStatementQuery prepared_statement_handle:bytes
CommandPreparedStatementUpdate prepared_statement_handle:bytes
CommandStatementIngest table_definition_options:TableDefinitionOptions table:string schema:string? catalog:string?
  temporary:bool transaction_id:bytes? options:IngestOption*=1000
TableDefinitionOptions if_not_exist:int32 if_exists:int32
IngestOption key:string value:string
TicketStatementQuery statement_handle:bytes
DoPutUpdateResult record_count:int64
DoPutPreparedStatementResult prepared_statement_handle:bytes?
SubstraitPlan plan:bytes version:string
ActionCreatePreparedStatementRequest query:string transaction_id:bytes?
ActionCreatePreparedSubstraitPlanRequest plan:SubstraitPlan transaction_id:bytes?
ActionCreatePreparedStatementResult prepared_statement_handle:bytes dataset_schema:bytes parameter_schema:bytes
ActionClosePreparedStatementRequest prepared_statement_handle:bytes
ActionBeginTransactionRequest
ActionBeginTransactionResult transaction_id:bytes
ActionEndTransactionRequest transaction_id:bytes action:int32
ActionBeginSavepointRequest transaction_id:bytes name:string
ActionBeginSavepointResult savepoint_id:bytes
ActionEndSavepointRequest savepoint_id:bytes action:int32
ActionCancelQueryRequest info:bytes
ActionCancelQueryResult result:int32
"""
"""The package `arrow.flight.protocol.sql`."""
