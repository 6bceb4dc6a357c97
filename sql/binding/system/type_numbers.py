"""PostgreSQL's types with their numbers, which clients know by heart, and the functions that convert them.

nyala's own types are among them; the others are for clients that look a type up by its name before they use it.
"""

from __future__ import annotations

TYPES = """
16 bool 1 t b B t 0 1000 1242 1243 2436 2437 0 0 c p 0
17 bytea -1 f b U f 0 1001 1244 31 2412 2413 0 0 i x 0
18 char 1 t b Z f 0 1002 1245 33 2434 2435 0 0 c p 0
19 name 64 f b S f 18 1003 34 35 2422 2423 0 0 c p 950
20 int8 8 t b N f 0 1016 460 461 2408 2409 0 0 d p 0
21 int2 2 t b N f 0 1005 38 39 2404 2405 0 0 s p 0
22 int2vector -1 f b A f 21 1006 40 41 2410 2411 0 0 i p 0
23 int4 4 t b N f 0 1007 42 43 2406 2407 0 0 i p 0
24 regproc 4 t b N f 0 1008 44 45 2444 2445 0 0 i p 0
25 text -1 f b S t 0 1009 46 47 2414 2415 0 0 i x 100
26 oid 4 t b N t 0 1028 1798 1799 2418 2419 0 0 i p 0
27 tid 6 f b U f 0 1010 48 49 2438 2439 0 0 s p 0
28 xid 4 t b U f 0 1011 50 51 2440 2441 0 0 i p 0
29 cid 4 t b U f 0 1012 52 53 2442 2443 0 0 i p 0
30 oidvector -1 f b A f 26 1013 54 55 2420 2421 0 0 i p 0
114 json -1 f b U f 0 199 321 322 323 324 0 0 i x 0
142 xml -1 f b U f 0 143 2893 2894 2898 2899 0 0 i x 0
600 point 16 f b G f 701 1017 117 118 2428 2429 0 0 d p 0
601 lseg 32 f b G f 600 1018 119 120 2480 2481 0 0 d p 0
602 path -1 f b G f 0 1019 121 122 2482 2483 0 0 d x 0
603 box 32 f b G f 600 1020 123 124 2484 2485 0 0 d p 0
604 polygon -1 f b G f 0 1027 347 348 2486 2487 0 0 d x 0
628 line 24 f b G f 701 629 1490 1491 2488 2489 0 0 d p 0
650 cidr -1 f b I f 0 651 1267 1427 2498 2499 0 0 i m 0
700 float4 4 t b N f 0 1021 200 201 2424 2425 0 0 i p 0
701 float8 8 t b N t 0 1022 214 215 2426 2427 0 0 d p 0
705 unknown -2 f p X f 0 0 109 110 2416 2417 0 0 c p 0
718 circle 24 f b G f 0 719 1450 1451 2490 2491 0 0 d p 0
829 macaddr 6 f b U f 0 1040 436 437 2494 2495 0 0 i p 0
869 inet -1 f b I t 0 1041 910 911 2496 2497 0 0 i m 0
1033 aclitem 12 f b U f 0 1034 1031 1032 0 0 0 0 i p 0
1042 bpchar -1 f b S f 0 1014 1044 1045 2430 2431 2913 2914 i x 100
1043 varchar -1 f b S f 0 1015 1046 1047 2432 2433 2915 2916 i x 100
1082 date 4 t b D f 0 1182 1084 1085 2468 2469 0 0 i p 0
1083 time 8 t b D f 0 1183 1143 1144 2470 2471 2909 2910 d p 0
1114 timestamp 8 t b D f 0 1115 1312 1313 2474 2475 2905 2906 d p 0
1184 timestamptz 8 t b D t 0 1185 1150 1151 2476 2477 2907 2908 d p 0
1186 interval 16 f b T t 0 1187 1160 1161 2478 2479 2903 2904 d p 0
1266 timetz 12 f b D f 0 1270 1350 1351 2472 2473 2911 2912 d p 0
1560 bit -1 f b V f 0 1561 1564 1565 2456 2457 2919 2920 i x 0
1562 varbit -1 f b V t 0 1563 1579 1580 2458 2459 2902 2921 i x 0
1700 numeric -1 f b N f 0 1231 1701 1702 2460 2461 2917 2918 i m 0
2202 regprocedure 4 t b N f 0 2207 2212 2213 2446 2447 0 0 i p 0
2203 regoper 4 t b N f 0 2208 2214 2215 2448 2449 0 0 i p 0
2204 regoperator 4 t b N f 0 2209 2216 2217 2450 2451 0 0 i p 0
2205 regclass 4 t b N f 0 2210 2218 2219 2452 2453 0 0 i p 0
2206 regtype 4 t b N f 0 2211 2220 2221 2454 2455 0 0 i p 0
2249 record -1 f p P f 0 2287 2290 2291 2402 2403 0 0 d x 0
2275 cstring -2 f p P f 0 1263 2292 2293 2500 2501 0 0 c p 0
2276 any 4 t p P f 0 0 2294 2295 0 0 0 0 i p 0
2277 anyarray -1 f p P f 0 0 2296 2297 2502 2503 0 0 d x 0
2278 void 4 t p P f 0 0 2298 2299 3120 3121 0 0 i p 0
2279 trigger 4 t p P f 0 0 2300 2301 0 0 0 0 i p 0
2283 anyelement 4 t p P f 0 0 2312 2313 0 0 0 0 i p 0
2776 anynonarray 4 t p P f 0 0 2777 2778 0 0 0 0 i p 0
2950 uuid 16 f b U f 0 2951 2952 2953 2961 2962 0 0 c p 0
3500 anyenum 4 t p P f 0 0 3504 3505 0 0 0 0 i p 0
3614 tsvector -1 f b U f 0 3643 3610 3611 3639 3638 0 0 i x 0
3615 tsquery -1 f b U f 0 3645 3612 3613 3641 3640 0 0 i p 0
3734 regconfig 4 t b N f 0 3735 3736 3737 3738 3739 0 0 i p 0
3769 regdictionary 4 t b N f 0 3770 3771 3772 3773 3774 0 0 i p 0
3802 jsonb -1 f b U f 0 3807 3806 3804 3805 3803 0 0 i x 0
3831 anyrange -1 f p P f 0 0 3832 3833 0 0 0 0 d x 0
3904 int4range -1 f r R f 0 3905 3834 3835 3836 3837 0 0 i x 0
3906 numrange -1 f r R f 0 3907 3834 3835 3836 3837 0 0 i x 0
3908 tsrange -1 f r R f 0 3909 3834 3835 3836 3837 0 0 d x 0
3910 tstzrange -1 f r R f 0 3911 3834 3835 3836 3837 0 0 d x 0
3912 daterange -1 f r R f 0 3913 3834 3835 3836 3837 0 0 i x 0
3926 int8range -1 f r R f 0 3927 3834 3835 3836 3837 0 0 d x 0
4089 regnamespace 4 t b N f 0 4090 4084 4085 4087 4088 0 0 i p 0
4096 regrole 4 t b N f 0 4097 4098 4092 4094 4095 0 0 i p 0
4191 regcollation 4 t b N f 0 4192 4193 4194 4196 4197 0 0 i p 0
4451 int4multirange -1 f m R f 0 6150 4231 4232 4233 4234 0 0 i x 0
4532 nummultirange -1 f m R f 0 6151 4231 4232 4233 4234 0 0 i x 0
4533 tsmultirange -1 f m R f 0 6152 4231 4232 4233 4234 0 0 d x 0
4534 tstzmultirange -1 f m R f 0 6153 4231 4232 4233 4234 0 0 d x 0
4535 datemultirange -1 f m R f 0 6155 4231 4232 4233 4234 0 0 i x 0
4536 int8multirange -1 f m R f 0 6157 4231 4232 4233 4234 0 0 d x 0
4537 anymultirange -1 f p P f 0 0 4229 4230 0 0 0 0 d x 0
"""
"""One type a line: oid, typname, typlen, typbyval, typtype, typcategory, typispreferred, typelem, typarray, typinput,
typoutput, typreceive, typsend, typmodin, typmodout, typalign, typstorage, typcollation. Each has an array type, unless
`typarray` is 0."""

CONVERTERS = """
byteaout:31 charout:33 namein:34 nameout:35 int2in:38 int2out:39 int2vectorin:40 int2vectorout:41 int4in:42 int4out:43
regprocin:44 regprocout:45 textin:46 textout:47 tidin:48 tidout:49 xidin:50 xidout:51 cidin:52 cidout:53
oidvectorin:54 oidvectorout:55 unknownin:109 unknownout:110 point_in:117 point_out:118 lseg_in:119 lseg_out:120
path_in:121 path_out:122 box_in:123 box_out:124 float4in:200 float4out:201 float8in:214 float8out:215 json_in:321
json_out:322 json_recv:323 json_send:324 poly_in:347 poly_out:348 macaddr_in:436 macaddr_out:437 int8in:460
int8out:461 array_in:750 array_out:751 inet_in:910 inet_out:911 aclitemin:1031 aclitemout:1032 bpcharin:1044
bpcharout:1045 varcharin:1046 varcharout:1047 date_in:1084 date_out:1085 time_in:1143 time_out:1144
timestamptz_in:1150 timestamptz_out:1151 interval_in:1160 interval_out:1161 boolin:1242 boolout:1243 byteain:1244
charin:1245 cidr_in:1267 timestamp_in:1312 timestamp_out:1313 timetz_in:1350 timetz_out:1351 cidr_out:1427
circle_in:1450 circle_out:1451 line_in:1490 line_out:1491 bit_in:1564 bit_out:1565 varbit_in:1579 varbit_out:1580
numeric_in:1701 numeric_out:1702 oidin:1798 oidout:1799 regprocedurein:2212 regprocedureout:2213 regoperin:2214
regoperout:2215 regoperatorin:2216 regoperatorout:2217 regclassin:2218 regclassout:2219 regtypein:2220 regtypeout:2221
record_in:2290 record_out:2291 cstring_in:2292 cstring_out:2293 any_in:2294 any_out:2295 anyarray_in:2296
anyarray_out:2297 void_in:2298 void_out:2299 trigger_in:2300 trigger_out:2301 anyelement_in:2312 anyelement_out:2313
array_recv:2400 array_send:2401 record_recv:2402 record_send:2403 int2recv:2404 int2send:2405 int4recv:2406
int4send:2407 int8recv:2408 int8send:2409 int2vectorrecv:2410 int2vectorsend:2411 bytearecv:2412 byteasend:2413
textrecv:2414 textsend:2415 unknownrecv:2416 unknownsend:2417 oidrecv:2418 oidsend:2419 oidvectorrecv:2420
oidvectorsend:2421 namerecv:2422 namesend:2423 float4recv:2424 float4send:2425 float8recv:2426 float8send:2427
point_recv:2428 point_send:2429 bpcharrecv:2430 bpcharsend:2431 varcharrecv:2432 varcharsend:2433 charrecv:2434
charsend:2435 boolrecv:2436 boolsend:2437 tidrecv:2438 tidsend:2439 xidrecv:2440 xidsend:2441 cidrecv:2442
cidsend:2443 regprocrecv:2444 regprocsend:2445 regprocedurerecv:2446 regproceduresend:2447 regoperrecv:2448
regopersend:2449 regoperatorrecv:2450 regoperatorsend:2451 regclassrecv:2452 regclasssend:2453 regtyperecv:2454
regtypesend:2455 bit_recv:2456 bit_send:2457 varbit_recv:2458 varbit_send:2459 numeric_recv:2460 numeric_send:2461
date_recv:2468 date_send:2469 time_recv:2470 time_send:2471 timetz_recv:2472 timetz_send:2473 timestamp_recv:2474
timestamp_send:2475 timestamptz_recv:2476 timestamptz_send:2477 interval_recv:2478 interval_send:2479 lseg_recv:2480
lseg_send:2481 path_recv:2482 path_send:2483 box_recv:2484 box_send:2485 poly_recv:2486 poly_send:2487 line_recv:2488
line_send:2489 circle_recv:2490 circle_send:2491 macaddr_recv:2494 macaddr_send:2495 inet_recv:2496 inet_send:2497
cidr_recv:2498 cidr_send:2499 cstring_recv:2500 cstring_send:2501 anyarray_recv:2502 anyarray_send:2503
anynonarray_in:2777 anynonarray_out:2778 xml_in:2893 xml_out:2894 xml_recv:2898 xml_send:2899 varbittypmodin:2902
intervaltypmodin:2903 intervaltypmodout:2904 timestamptypmodin:2905 timestamptypmodout:2906 timestamptztypmodin:2907
timestamptztypmodout:2908 timetypmodin:2909 timetypmodout:2910 timetztypmodin:2911 timetztypmodout:2912
bpchartypmodin:2913 bpchartypmodout:2914 varchartypmodin:2915 varchartypmodout:2916 numerictypmodin:2917
numerictypmodout:2918 bittypmodin:2919 bittypmodout:2920 varbittypmodout:2921 uuid_in:2952 uuid_out:2953
uuid_recv:2961 uuid_send:2962 void_recv:3120 void_send:3121 anyenum_in:3504 anyenum_out:3505 tsvectorin:3610
tsvectorout:3611 tsqueryin:3612 tsqueryout:3613 tsvectorsend:3638 tsvectorrecv:3639 tsquerysend:3640 tsqueryrecv:3641
regconfigin:3736 regconfigout:3737 regconfigrecv:3738 regconfigsend:3739 regdictionaryin:3771 regdictionaryout:3772
regdictionaryrecv:3773 regdictionarysend:3774 jsonb_send:3803 jsonb_out:3804 jsonb_recv:3805 jsonb_in:3806
anyrange_in:3832 anyrange_out:3833 range_in:3834 range_out:3835 range_recv:3836 range_send:3837 regnamespacein:4084
regnamespaceout:4085 regnamespacerecv:4087 regnamespacesend:4088 regroleout:4092 regrolerecv:4094 regrolesend:4095
regrolein:4098 regcollationin:4193 regcollationout:4194 regcollationrecv:4196 regcollationsend:4197
anymultirange_in:4229 anymultirange_out:4230 multirange_in:4231 multirange_out:4232 multirange_recv:4233
multirange_send:4234
"""
"""The functions that convert the types, as name:oid."""
