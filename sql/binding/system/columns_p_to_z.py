"""The columns of the relations of `pg_catalog` from P to Z, as PostgreSQL 15 has them.

Each relation is written `name oid column:type column:type ...`, its name without `pg_`; a line that is indented
continues the one before.
"""

COLUMNS = """
partitioned_table 3350 partrelid:oid partstrat:char partnatts:int2 partdefid:oid partattrs:int2vector
  partclass:oidvector partcollation:oidvector partexprs:pg_node_tree
policies 12018 schemaname:name tablename:name policyname:name permissive:text roles:name[] cmd:text qual:text
  with_check:text
policy 3256 oid:oid polname:name polrelid:oid polcmd:char polpermissive:bool polroles:oid[] polqual:pg_node_tree
  polwithcheck:pg_node_tree
prepared_statements 12095 name:text statement:text prepare_time:timestamptz parameter_types:regtype[] from_sql:bool
  generic_plans:int8 custom_plans:int8
prepared_xacts 12090 transaction:xid gid:text prepared:timestamptz owner:name database:name
proc 1255 oid:oid proname:name pronamespace:oid proowner:oid prolang:oid procost:float4 prorows:float4 provariadic:oid
  prosupport:regproc prokind:char prosecdef:bool proleakproof:bool proisstrict:bool proretset:bool provolatile:char
  proparallel:char pronargs:int2 pronargdefaults:int2 prorettype:oid proargtypes:oidvector proallargtypes:oid[]
  proargmodes:char[] proargnames:text[] proargdefaults:pg_node_tree protrftypes:oid[] prosrc:text probin:text
  prosqlbody:pg_node_tree proconfig:text[] proacl:aclitem[]
publication 6104 oid:oid pubname:name pubowner:oid puballtables:bool pubinsert:bool pubupdate:bool pubdelete:bool
  pubtruncate:bool pubviaroot:bool
publication_namespace 6237 oid:oid pnpubid:oid pnnspid:oid
publication_rel 6106 oid:oid prpubid:oid prrelid:oid prqual:pg_node_tree prattrs:int2vector
publication_tables 12068 pubname:name schemaname:name tablename:name attnames:name[] rowfilter:text
range 3541 rngtypid:oid rngsubtype:oid rngmultitypid:oid rngcollation:oid rngsubopc:oid rngcanonical:regproc
  rngsubdiff:regproc
replication_slots 12257 slot_name:name plugin:name slot_type:text datoid:oid database:name temporary:bool active:bool
  active_pid:int4 xmin:xid catalog_xmin:xid restart_lsn:pg_lsn confirmed_flush_lsn:pg_lsn wal_status:text
  safe_wal_size:int8 two_phase:bool
rewrite 2618 oid:oid rulename:name ev_class:oid ev_type:char ev_enabled:char is_instead:bool ev_qual:pg_node_tree
  ev_action:pg_node_tree
roles 12000 rolname:name rolsuper:bool rolinherit:bool rolcreaterole:bool rolcreatedb:bool rolcanlogin:bool
  rolreplication:bool rolconnlimit:int4 rolpassword:text rolvaliduntil:timestamptz rolbypassrls:bool rolconfig:text[]
  oid:oid
rules 12023 schemaname:name tablename:name rulename:name definition:text
seclabels 12099 objoid:oid classoid:oid objsubid:int4 objtype:text objnamespace:oid objname:text provider:text
  label:text
sequence 2224 seqrelid:oid seqtypid:oid seqstart:int8 seqincrement:int8 seqmax:int8 seqmin:int8 seqcache:int8
  seqcycle:bool
sequences 12048 schemaname:name sequencename:name sequenceowner:name data_type:regtype start_value:int8 min_value:int8
  max_value:int8 increment_by:int8 cycle:bool cache_size:int8 last_value:int8
settings 12104 name:text setting:text unit:text category:text short_desc:text extra_desc:text context:text
  vartype:text source:text min_val:text max_val:text enumvals:text[] boot_val:text reset_val:text sourcefile:text
  sourceline:int4 pending_restart:bool
shadow 12005 usename:name usesysid:oid usecreatedb:bool usesuper:bool userepl:bool usebypassrls:bool passwd:text
  valuntil:timestamptz useconfig:text[]
shdepend 1214 dbid:oid classid:oid objid:oid objsubid:int4 refclassid:oid refobjid:oid deptype:char
shdescription 2396 objoid:oid classoid:oid description:text
shseclabel 3592 objoid:oid classoid:oid provider:text label:text
stat_activity 12222 datid:oid datname:name pid:int4 leader_pid:int4 usesysid:oid usename:name application_name:text
  client_addr:inet client_hostname:text client_port:int4 backend_start:timestamptz xact_start:timestamptz
  query_start:timestamptz state_change:timestamptz wait_event_type:text wait_event:text state:text backend_xid:xid
  backend_xmin:xid query_id:int8 query:text backend_type:text
stat_all_indexes 12183 relid:oid indexrelid:oid schemaname:name relname:name indexrelname:name idx_scan:int8
  idx_tup_read:int8 idx_tup_fetch:int8
stat_all_tables 12142 relid:oid schemaname:name relname:name seq_scan:int8 seq_tup_read:int8 idx_scan:int8
  idx_tup_fetch:int8 n_tup_ins:int8 n_tup_upd:int8 n_tup_del:int8 n_tup_hot_upd:int8 n_live_tup:int8 n_dead_tup:int8
  n_mod_since_analyze:int8 n_ins_since_vacuum:int8 last_vacuum:timestamptz last_autovacuum:timestamptz
  last_analyze:timestamptz last_autoanalyze:timestamptz vacuum_count:int8 autovacuum_count:int8 analyze_count:int8
  autoanalyze_count:int8
stat_archiver 12285 archived_count:int8 last_archived_wal:text last_archived_time:timestamptz failed_count:int8
  last_failed_wal:text last_failed_time:timestamptz stats_reset:timestamptz
stat_bgwriter 12289 checkpoints_timed:int8 checkpoints_req:int8 checkpoint_write_time:float8
  checkpoint_sync_time:float8 buffers_checkpoint:int8 buffers_clean:int8 maxwritten_clean:int8 buffers_backend:int8
  buffers_backend_fsync:int8 buffers_alloc:int8 stats_reset:timestamptz
stat_database 12266 datid:oid datname:name numbackends:int4 xact_commit:int8 xact_rollback:int8 blks_read:int8
  blks_hit:int8 tup_returned:int8 tup_fetched:int8 tup_inserted:int8 tup_updated:int8 tup_deleted:int8 conflicts:int8
  temp_files:int8 temp_bytes:int8 deadlocks:int8 checksum_failures:int8 checksum_last_failure:timestamptz
  blk_read_time:float8 blk_write_time:float8 session_time:float8 active_time:float8 idle_in_transaction_time:float8
  sessions:int8 sessions_abandoned:int8 sessions_fatal:int8 sessions_killed:int8 stats_reset:timestamptz
stat_database_conflicts 12271 datid:oid datname:name confl_tablespace:int8 confl_lock:int8 confl_snapshot:int8
  confl_bufferpin:int8 confl_deadlock:int8
stat_progress_analyze 12297 pid:int4 datid:oid datname:name relid:oid phase:text sample_blks_total:int8
  sample_blks_scanned:int8 ext_stats_total:int8 ext_stats_computed:int8 child_tables_total:int8 child_tables_done:int8
  current_child_table_relid:oid
stat_progress_copy 12322 pid:int4 datid:oid datname:name relid:oid command:text type:text bytes_processed:int8
  bytes_total:int8 tuples_processed:int8 tuples_excluded:int8
stat_progress_create_index 12312 pid:int4 datid:oid datname:name relid:oid index_relid:oid command:text phase:text
  lockers_total:int8 lockers_done:int8 current_locker_pid:int8 blocks_total:int8 blocks_done:int8 tuples_total:int8
  tuples_done:int8 partitions_total:int8 partitions_done:int8
stat_progress_vacuum 12302 pid:int4 datid:oid datname:name relid:oid phase:text heap_blks_total:int8
  heap_blks_scanned:int8 heap_blks_vacuumed:int8 index_vacuum_count:int8 max_dead_tuples:int8 num_dead_tuples:int8
stat_replication 12227 pid:int4 usesysid:oid usename:name application_name:text client_addr:inet client_hostname:text
  client_port:int4 backend_start:timestamptz backend_xmin:xid state:text sent_lsn:pg_lsn write_lsn:pg_lsn
  flush_lsn:pg_lsn replay_lsn:pg_lsn write_lag:interval flush_lag:interval replay_lag:interval sync_priority:int4
  sync_state:text reply_time:timestamptz
stat_ssl 12249 pid:int4 ssl:bool version:text cipher:text bits:int4 client_dn:text client_serial:numeric
  issuer_dn:text
stat_subscription 12244 subid:oid subname:name pid:int4 relid:oid received_lsn:pg_lsn last_msg_send_time:timestamptz
  last_msg_receipt_time:timestamptz latest_end_lsn:pg_lsn latest_end_time:timestamptz
stat_sys_indexes 12188 relid:oid indexrelid:oid schemaname:name relname:name indexrelname:name idx_scan:int8
  idx_tup_read:int8 idx_tup_fetch:int8
stat_sys_tables 12152 relid:oid schemaname:name relname:name seq_scan:int8 seq_tup_read:int8 idx_scan:int8
  idx_tup_fetch:int8 n_tup_ins:int8 n_tup_upd:int8 n_tup_del:int8 n_tup_hot_upd:int8 n_live_tup:int8 n_dead_tup:int8
  n_mod_since_analyze:int8 n_ins_since_vacuum:int8 last_vacuum:timestamptz last_autovacuum:timestamptz
  last_analyze:timestamptz last_autoanalyze:timestamptz vacuum_count:int8 autovacuum_count:int8 analyze_count:int8
  autoanalyze_count:int8
stat_user_functions 12275 funcid:oid schemaname:name funcname:name calls:int8 total_time:float8 self_time:float8
stat_user_indexes 12192 relid:oid indexrelid:oid schemaname:name relname:name indexrelname:name idx_scan:int8
  idx_tup_read:int8 idx_tup_fetch:int8
stat_user_tables 12161 relid:oid schemaname:name relname:name seq_scan:int8 seq_tup_read:int8 idx_scan:int8
  idx_tup_fetch:int8 n_tup_ins:int8 n_tup_upd:int8 n_tup_del:int8 n_tup_hot_upd:int8 n_live_tup:int8 n_dead_tup:int8
  n_mod_since_analyze:int8 n_ins_since_vacuum:int8 last_vacuum:timestamptz last_autovacuum:timestamptz
  last_analyze:timestamptz last_autoanalyze:timestamptz vacuum_count:int8 autovacuum_count:int8 analyze_count:int8
  autoanalyze_count:int8
statistic_ext 3381 oid:oid stxrelid:oid stxname:name stxnamespace:oid stxowner:oid stxstattarget:int4
  stxkeys:int2vector stxkind:char[] stxexprs:pg_node_tree
stats 12053 schemaname:name tablename:name attname:name inherited:bool null_frac:float4 avg_width:int4
  n_distinct:float4 most_common_vals:anyarray most_common_freqs:float4[] histogram_bounds:anyarray correlation:float4
  most_common_elems:anyarray most_common_elem_freqs:float4[] elem_count_histogram:float4[]
stats_ext 12058 schemaname:name tablename:name statistics_schemaname:name statistics_name:name statistics_owner:name
  attnames:name[] exprs:text[] kinds:char[] inherited:bool n_distinct:pg_ndistinct dependencies:pg_dependencies
  most_common_vals:text[] most_common_val_nulls:bool[] most_common_freqs:float8[] most_common_base_freqs:float8[]
subscription 6100 oid:oid subdbid:oid subskiplsn:pg_lsn subname:name subowner:oid subenabled:bool subbinary:bool
  substream:bool subtwophasestate:char subdisableonerr:bool subconninfo:text subslotname:name subsynccommit:text
  subpublications:text[]
subscription_rel 6102 srsubid:oid srrelid:oid srsubstate:char srsublsn:pg_lsn
tables 12033 schemaname:name tablename:name tableowner:name tablespace:name hasindexes:bool hasrules:bool
  hastriggers:bool rowsecurity:bool
tablespace 1213 oid:oid spcname:name spcowner:oid spcacl:aclitem[] spcoptions:text[]
timezone_abbrevs 12122 abbrev:text utc_offset:interval is_dst:bool
timezone_names 12126 name:text abbrev:text utc_offset:interval is_dst:bool
transform 3576 oid:oid trftype:oid trflang:oid trffromsql:regproc trftosql:regproc
trigger 2620 oid:oid tgrelid:oid tgparentid:oid tgname:name tgfoid:oid tgtype:int2 tgenabled:char tgisinternal:bool
  tgconstrrelid:oid tgconstrindid:oid tgconstraint:oid tgdeferrable:bool tginitdeferred:bool tgnargs:int2
  tgattr:int2vector tgargs:bytea tgqual:pg_node_tree tgoldtable:name tgnewtable:name
ts_config 3602 oid:oid cfgname:name cfgnamespace:oid cfgowner:oid cfgparser:oid
ts_config_map 3603 mapcfg:oid maptokentype:int4 mapseqno:int4 mapdict:oid
ts_dict 3600 oid:oid dictname:name dictnamespace:oid dictowner:oid dicttemplate:oid dictinitoption:text
ts_parser 3601 oid:oid prsname:name prsnamespace:oid prsstart:regproc prstoken:regproc prsend:regproc
  prsheadline:regproc prslextype:regproc
ts_template 3764 oid:oid tmplname:name tmplnamespace:oid tmplinit:regproc tmpllexize:regproc
type 1247 oid:oid typname:name typnamespace:oid typowner:oid typlen:int2 typbyval:bool typtype:char typcategory:char
  typispreferred:bool typisdefined:bool typdelim:char typrelid:oid typsubscript:regproc typelem:oid typarray:oid
  typinput:regproc typoutput:regproc typreceive:regproc typsend:regproc typmodin:regproc typmodout:regproc
  typanalyze:regproc typalign:char typstorage:char typnotnull:bool typbasetype:oid typtypmod:int4 typndims:int4
  typcollation:oid typdefaultbin:pg_node_tree typdefault:text typacl:aclitem[]
user 12014 usename:name usesysid:oid usecreatedb:bool usesuper:bool userepl:bool usebypassrls:bool passwd:text
  valuntil:timestamptz useconfig:text[]
user_mapping 1418 oid:oid umuser:oid umserver:oid umoptions:text[]
user_mappings 12327 umid:oid srvid:oid srvname:name umuser:oid usename:name umoptions:text[]
views 12028 schemaname:name viewname:name viewowner:name definition:text
"""
