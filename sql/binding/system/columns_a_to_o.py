"""The columns of the relations of `pg_catalog` from A to O, as PostgreSQL 15 has them.

Each relation is written `name oid column:type column:type ...`, its name without `pg_`; a line that is indented
continues the one before.
"""

COLUMNS = """
aggregate 2600 aggfnoid:regproc aggkind:char aggnumdirectargs:int2 aggtransfn:regproc aggfinalfn:regproc
  aggcombinefn:regproc aggserialfn:regproc aggdeserialfn:regproc aggmtransfn:regproc aggminvtransfn:regproc
  aggmfinalfn:regproc aggfinalextra:bool aggmfinalextra:bool aggfinalmodify:char aggmfinalmodify:char aggsortop:oid
  aggtranstype:oid aggtransspace:int4 aggmtranstype:oid aggmtransspace:int4 agginitval:text aggminitval:text
am 2601 oid:oid amname:name amhandler:regproc amtype:char
amop 2602 oid:oid amopfamily:oid amoplefttype:oid amoprighttype:oid amopstrategy:int2 amoppurpose:char amopopr:oid
  amopmethod:oid amopsortfamily:oid
amproc 2603 oid:oid amprocfamily:oid amproclefttype:oid amprocrighttype:oid amprocnum:int2 amproc:regproc
attrdef 2604 oid:oid adrelid:oid adnum:int2 adbin:pg_node_tree
attribute 1249 attrelid:oid attname:name atttypid:oid attstattarget:int4 attlen:int2 attnum:int2 attndims:int4
  attcacheoff:int4 atttypmod:int4 attbyval:bool attalign:char attstorage:char attcompression:char attnotnull:bool
  atthasdef:bool atthasmissing:bool attidentity:char attgenerated:char attisdropped:bool attislocal:bool
  attinhcount:int4 attcollation:oid attacl:aclitem[] attoptions:text[] attfdwoptions:text[] attmissingval:anyarray
auth_members 1261 roleid:oid member:oid grantor:oid admin_option:bool
authid 1260 oid:oid rolname:name rolsuper:bool rolinherit:bool rolcreaterole:bool rolcreatedb:bool rolcanlogin:bool
  rolreplication:bool rolbypassrls:bool rolconnlimit:int4 rolpassword:text rolvaliduntil:timestamptz
available_extension_versions 12085 name:name version:text installed:bool superuser:bool trusted:bool relocatable:bool
  schema:name requires:name[] comment:text
available_extensions 12081 name:name default_version:text installed_version:text comment:text
cast 2605 oid:oid castsource:oid casttarget:oid castfunc:oid castcontext:char castmethod:char
class 1259 oid:oid relname:name relnamespace:oid reltype:oid reloftype:oid relowner:oid relam:oid relfilenode:oid
  reltablespace:oid relpages:int4 reltuples:float4 relallvisible:int4 reltoastrelid:oid relhasindex:bool
  relisshared:bool relpersistence:char relkind:char relnatts:int2 relchecks:int2 relhasrules:bool relhastriggers:bool
  relhassubclass:bool relrowsecurity:bool relforcerowsecurity:bool relispopulated:bool relreplident:char
  relispartition:bool relrewrite:oid relfrozenxid:xid relminmxid:xid relacl:aclitem[] reloptions:text[]
  relpartbound:pg_node_tree
collation 3456 oid:oid collname:name collnamespace:oid collowner:oid collprovider:char collisdeterministic:bool
  collencoding:int4 collcollate:text collctype:text colliculocale:text collversion:text
constraint 2606 oid:oid conname:name connamespace:oid contype:char condeferrable:bool condeferred:bool
  convalidated:bool conrelid:oid contypid:oid conindid:oid conparentid:oid confrelid:oid confupdtype:char
  confdeltype:char confmatchtype:char conislocal:bool coninhcount:int4 connoinherit:bool conkey:int2[] confkey:int2[]
  conpfeqop:oid[] conppeqop:oid[] conffeqop:oid[] confdelsetcols:int2[] conexclop:oid[] conbin:pg_node_tree
conversion 2607 oid:oid conname:name connamespace:oid conowner:oid conforencoding:int4 contoencoding:int4
  conproc:regproc condefault:bool
cursors 12077 name:text statement:text is_holdable:bool is_binary:bool is_scrollable:bool creation_time:timestamptz
database 1262 oid:oid datname:name datdba:oid encoding:int4 datlocprovider:char datistemplate:bool datallowconn:bool
  datconnlimit:int4 datfrozenxid:xid datminmxid:xid dattablespace:oid datcollate:text datctype:text daticulocale:text
  datcollversion:text datacl:aclitem[]
db_role_setting 2964 setdatabase:oid setrole:oid setconfig:text[]
default_acl 826 oid:oid defaclrole:oid defaclnamespace:oid defaclobjtype:char defaclacl:aclitem[]
depend 2608 classid:oid objid:oid objsubid:int4 refclassid:oid refobjid:oid refobjsubid:int4 deptype:char
description 2609 objoid:oid classoid:oid objsubid:int4 description:text
enum 3501 oid:oid enumtypid:oid enumsortorder:float4 enumlabel:name
event_trigger 3466 oid:oid evtname:name evtevent:name evtowner:oid evtfoid:oid evtenabled:char evttags:text[]
extension 3079 oid:oid extname:name extowner:oid extnamespace:oid extrelocatable:bool extversion:text extconfig:oid[]
  extcondition:text[]
foreign_data_wrapper 2328 oid:oid fdwname:name fdwowner:oid fdwhandler:oid fdwvalidator:oid fdwacl:aclitem[]
  fdwoptions:text[]
foreign_server 1417 oid:oid srvname:name srvowner:oid srvfdw:oid srvtype:text srvversion:text srvacl:aclitem[]
  srvoptions:text[]
foreign_table 3118 ftrelid:oid ftserver:oid ftoptions:text[]
group 12010 groname:name grosysid:oid grolist:oid[]
index 2610 indexrelid:oid indrelid:oid indnatts:int2 indnkeyatts:int2 indisunique:bool indnullsnotdistinct:bool
  indisprimary:bool indisexclusion:bool indimmediate:bool indisclustered:bool indisvalid:bool indcheckxmin:bool
  indisready:bool indislive:bool indisreplident:bool indkey:int2vector indcollation:oidvector indclass:oidvector
  indoption:int2vector indexprs:pg_node_tree indpred:pg_node_tree
indexes 12043 schemaname:name tablename:name indexname:name tablespace:name indexdef:text
inherits 2611 inhrelid:oid inhparent:oid inhseqno:int4 inhdetachpending:bool
language 2612 oid:oid lanname:name lanowner:oid lanispl:bool lanpltrusted:bool lanplcallfoid:oid laninline:oid
  lanvalidator:oid lanacl:aclitem[]
largeobject_metadata 2995 oid:oid lomowner:oid lomacl:aclitem[]
locks 12073 locktype:text database:oid relation:oid page:int4 tuple:int2 virtualxid:text transactionid:xid classid:oid
  objid:oid objsubid:int2 virtualtransaction:text pid:int4 mode:text granted:bool fastpath:bool waitstart:timestamptz
matviews 12038 schemaname:name matviewname:name matviewowner:name tablespace:name hasindexes:bool ispopulated:bool
  definition:text
namespace 2615 oid:oid nspname:name nspowner:oid nspacl:aclitem[]
opclass 2616 oid:oid opcmethod:oid opcname:name opcnamespace:oid opcowner:oid opcfamily:oid opcintype:oid
  opcdefault:bool opckeytype:oid
operator 2617 oid:oid oprname:name oprnamespace:oid oprowner:oid oprkind:char oprcanmerge:bool oprcanhash:bool
  oprleft:oid oprright:oid oprresult:oid oprcom:oid oprnegate:oid oprcode:regproc oprrest:regproc oprjoin:regproc
opfamily 2753 oid:oid opfmethod:oid opfname:name opfnamespace:oid opfowner:oid
"""
