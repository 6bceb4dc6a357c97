One call of every scalar function of the registry, and more where the kinds of arguments have their own kernels
(`functions`). Each is the select list of a query over `samples`; the name up to the point is the function's.

-- upper
max(upper(name))
-- upper.mixed
max(upper(mixed))
-- lower
max(lower(name))
-- lower.mixed
max(lower(mixed))
-- length
sum(length(name))
-- length.mixed
sum(length(mixed))
-- octet_length
sum(octet_length(mixed))
-- octet_length duckdb
sum(strlen(mixed))
-- reverse
max(reverse(name))
-- reverse.mixed
max(reverse(mixed))
-- trim
max(trim(blanks))
-- trim.characters
max(trim(name, 'abcde'))
-- ltrim
max(ltrim(blanks))
-- rtrim
max(rtrim(blanks))
-- replace
max(replace(name, 'ko', 'xyz'))
-- replace.column
max(replace(name, left(word, 2), '-'))
-- strpos
sum(strpos(name, 'ko'))
-- strpos.mixed
sum(strpos(mixed, '1'))
-- strpos.column
sum(strpos(name, left(word, 2)))
-- starts_with
count(*) FILTER (WHERE starts_with(name, 'ko'))
-- starts_with.column
count(*) FILTER (WHERE starts_with(name, left(word, 2)))
-- ends_with
count(*) FILTER (WHERE ends_with(name, '77'))
-- ends_with.column
count(*) FILTER (WHERE ends_with(name, right(digits, 2)))
-- contains
count(*) FILTER (WHERE contains(name, 'koru'))
-- contains.column
count(*) FILTER (WHERE contains(name, left(word, 3)))
-- substring
max(substring(name, 3, 5))
-- substring.mixed
max(substring(mixed, 3, 5))
-- substring.column
max(substring(name, few, few))
-- left
max(left(name, 6))
-- left.column
max(left(name, few))
-- left.negative
max(left(name, -3))
-- right
max(right(name, 4))
-- right.column
max(right(name, few))
-- repeat
max(repeat(word, 3))
-- repeat.column
max(repeat(word, few))
-- concat
max(concat(name, n, word))
-- concat.operator
max(name || '/' || word)
-- concat_ws
max(concat_ws('-', name, maybe, n))
-- initcap
max(initcap(name))
-- initcap duckdb
max(array_to_string(list_transform(string_split(name, ' '), lambda w: upper(w[1]) || lower(w[2:])), ' '))
-- lpad
max(lpad(name, 30, '*'))
-- lpad.column
max(lpad(word, few, '*'))
-- rpad
max(rpad(name, 30, '*'))
-- overlay
max(overlay(name PLACING 'xyz' FROM 3 FOR 2))
-- overlay duckdb
max(left(name, 2) || 'xyz' || substring(name, 5))
-- split_part
max(split_part(name, '-', 2))
-- split_part.column
max(split_part(name, left(word, 1), 2))
-- translate
max(translate(name, 'aeiou', 'AEIO'))
-- translate.mixed
max(translate(mixed, 'аеиоу', 'aeio'))
-- ascii
sum(ascii(mixed))
-- chr
max(chr(33 + m))
-- chr.ascii
max(chr(64 + few))
-- bit_length
sum(bit_length(name))
-- levenshtein
sum(levenshtein(word, other))
-- levenshtein.constant
sum(levenshtein(word, 'korumalo'))
-- to_hex
max(to_hex(big))
-- to_hex duckdb
max(lower(to_hex(big)))
-- to_hex.int
max(to_hex(n + 2000000))
-- to_hex.int duckdb
max(lower(to_hex(n + 2000000)))
-- md5
max(md5(name))
-- sha256
max(encode(sha256(name), 'hex'))
-- sha256 duckdb
max(sha256(name))
-- encode.hex
max(encode(name, 'hex'))
-- encode.hex duckdb
max(lower(hex(name)))
-- encode.base64
max(encode(word, 'base64'))
-- encode.base64 duckdb
max(base64(encode(word)))
-- decode.hex
max(octet_length(decode(to_hex(big + 5000000000000000000), 'hex')))
-- decode.hex duckdb
max(octet_length(unhex(to_hex(big + 5000000000000000000))))
-- decode.base64
max(octet_length(decode(encode(word, 'base64'), 'base64')))
-- decode.base64 duckdb
max(octet_length(from_base64(base64(encode(word)))))
-- quote_literal
max(quote_literal(name))
-- quote_literal duckdb
max('''' || replace(name, '''', '''''') || '''')
-- quote_nullable
max(quote_nullable(maybe))
-- quote_nullable duckdb
max(coalesce('''' || replace(maybe, '''', '''''') || '''', 'NULL'))
-- quote_ident
max(quote_ident(word))
-- quote_ident duckdb
max(CASE WHEN regexp_full_match(word, '[a-z_][a-z0-9_$]*') THEN word ELSE '"' || replace(word, '"', '""') || '"' END)
-- format
max(format('%s is %s', word, n))
-- format duckdb
max(printf('%s is %d', word, n))
-- regexp_like
count(*) FILTER (WHERE regexp_like(name, 'k[ou]r.*7'))
-- regexp_like duckdb
count(*) FILTER (WHERE regexp_matches(name, 'k[ou]r.*7'))
-- regexp_replace
max(regexp_replace(name, '[aeiou]', '-'))
-- regexp_replace.all
max(regexp_replace(name, '[aeiou]+', '-', 'g'))
-- regexp_substr
max(regexp_substr(name, '[0-9]+'))
-- regexp_substr duckdb
max(nullif(regexp_extract(name, '[0-9]+'), ''))
-- regexp_count
sum(regexp_count(name, '[aeiou]'))
-- regexp_count duckdb
sum(len(regexp_extract_all(name, '[aeiou]')))
-- regexp_instr
sum(regexp_instr(name, '[0-9]'))
-- regexp_instr duckdb
sum(length(regexp_extract(name, '^[^0-9]*')) + 1)
-- typeof
max(typeof(price))
-- gen_random_uuid
count(gen_random_uuid())
-- abs
sum(abs(n))
-- abs.double
sum(abs(x))
-- abs.decimal
sum(abs(price))
-- sign
sum(sign(x))
-- floor
sum(floor(x))
-- floor.decimal
sum(floor(price))
-- ceil
sum(ceil(x))
-- round
sum(round(x))
-- round.digits
sum(round(x, 2))
-- round.decimal
sum(round(price, 1))
-- mod
sum(mod(n, m))
-- mod.decimal
sum(mod(price, 7.25))
-- mod.double
sum(mod(x, 7.25e0))
-- sqrt
sum(sqrt(y))
-- exp
sum(exp(p))
-- ln
sum(ln(y))
-- log10
sum(log10(y))
-- power
sum(power(y, 2.5e0))
-- power.columns
sum(power(y, p))
-- trunc
sum(trunc(x))
-- trunc.digits
sum(trunc(x, 2))
-- trunc.decimal
sum(trunc(price, 1))
-- div
sum(div(n, m))
-- div duckdb
sum(n // m)
-- div.decimal
sum(div(price, 7.25))
-- div.decimal duckdb
sum(trunc(price / 7.25))
-- cbrt
sum(cbrt(x))
-- log
sum(log(2, y))
-- log2
sum(log2(y))
-- sin
sum(sin(p))
-- cos
sum(cos(p))
-- tan
sum(tan(p))
-- cot
sum(cot(y))
-- asin
sum(asin(p))
-- acos
sum(acos(p))
-- atan
sum(atan(x))
-- atan2
sum(atan2(x, y))
-- sinh
sum(sinh(p))
-- cosh
sum(cosh(p))
-- tanh
sum(tanh(p))
-- asinh
sum(asinh(x))
-- acosh
sum(acosh(y))
-- atanh
sum(atanh(p))
-- degrees
sum(degrees(p))
-- radians
sum(radians(x))
-- pi
sum(pi() * p)
-- gcd
sum(gcd(n, m))
-- gcd.large
sum(gcd(big, n))
-- lcm
sum(lcm(few, m))
-- factorial
max(factorial(few))
-- width_bucket
sum(width_bucket(x, -1000, 1000, 20))
-- width_bucket duckdb
sum(CASE WHEN x < -1000 THEN 0 WHEN x >= 1000 THEN 21 ELSE floor((x + 1000) / 100) + 1 END)
-- random
count(*) FILTER (WHERE random() < 2)
-- isnan
count(*) FILTER (WHERE isnan(x))
-- isinf
count(*) FILTER (WHERE isinf(x))
-- isfinite
count(*) FILTER (WHERE isfinite(x))
-- date_part
sum(date_part('week', ts))
-- date_part.epoch
sum(date_part('epoch', ts))
-- date_part.interval
sum(date_part('hour', until - ts))
-- date_trunc
max(date_trunc('month', ts))
-- date_trunc.week
max(date_trunc('week', ts))
-- date_trunc.decade
max(date_trunc('decade', ts))
-- date_trunc.day
max(date_trunc('quarter', day))
-- year
sum(year(ts))
-- year.date
sum(year(day))
-- quarter
sum(quarter(ts))
-- month
sum(month(ts))
-- week
sum(week(ts))
-- day
sum(day(ts))
-- dow
sum(dow(ts))
-- dow duckdb
sum(dayofweek(ts))
-- doy
sum(doy(ts))
-- doy duckdb
sum(dayofyear(ts))
-- hour
sum(hour(ts))
-- minute
sum(minute(ts))
-- second
sum(floor(second(ts)))
-- isodow
sum(isodow(ts))
-- isoyear
sum(isoyear(ts))
-- epoch
sum(epoch(ts))
-- dayname
max(dayname(ts))
-- monthname
max(monthname(ts))
-- last_day
max(last_day(ts))
-- age
sum(date_part('month', age(until, ts)))
-- date_add
max(date_add(ts, INTERVAL '1 month'))
-- date_add.day
max(date_add(day, INTERVAL '40 days'))
-- date_subtract
max(date_subtract(ts, INTERVAL '1 month 3 days'))
-- date_subtract duckdb
max(ts - INTERVAL '1 month 3 days')
-- add_months
max(add_months(day, few))
-- add_months duckdb
max(day + to_months(few))
-- datediff
sum(datediff('month', ts, until))
-- datediff.day
sum(datediff('day', ts, until))
-- date_bin
max(date_bin(INTERVAL '15 minutes', ts, TIMESTAMP '2000-01-03'))
-- date_bin duckdb
max(time_bucket(INTERVAL '15 minutes', ts))
-- make_date
max(make_date(2000 + few, few, few))
-- make_timestamp
max(make_timestamp(2000 + few, few, few, few, few, 1.5))
-- make_interval
max(ts + make_interval(0, 0, 0, m))
-- make_interval duckdb
max(ts + to_days(m))
-- to_char
max(to_char(ts, 'YYYY-MM-DD HH24:MI:SS'))
-- to_char duckdb
max(strftime(ts, '%Y-%m-%d %H:%M:%S'))
-- to_char.names
max(to_char(ts, 'FMDay, DD FMMonth YYYY'))
-- to_char.names duckdb
max(strftime(ts, '%A, %d %B %Y'))
-- to_char.number
max(to_char(price, 'FM999,999,990.00'))
-- to_char.number duckdb
max(format('{:,.2f}', CAST(price AS DOUBLE)))
-- to_date
max(to_date(substring(moment, 1, 10), 'YYYY-MM-DD'))
-- to_date duckdb
max(CAST(strptime(substring(moment, 1, 10), '%Y-%m-%d') AS DATE))
-- to_timestamp
max(to_timestamp(moment, 'YYYY-MM-DD HH24:MI:SS'))
-- to_timestamp duckdb
max(strptime(moment, '%Y-%m-%d %H:%M:%S'))
-- to_timestamp.seconds
max(to_timestamp(m * 100000))
-- to_timestamp.seconds duckdb
max(to_timestamp(m * 100000) AT TIME ZONE 'UTC')
-- to_number
sum(to_number(digits, '9999999999999999'))
-- to_number duckdb
sum(CAST(digits AS DECIMAL(18, 0)))
-- now
count(*) FILTER (WHERE ts < now())
-- now duckdb
count(*) FILTER (WHERE ts < now()::TIMESTAMP)
-- current_date
count(*) FILTER (WHERE day < current_date)
-- coalesce
max(coalesce(maybe, word))
-- coalesce.number
sum(coalesce(maybe_n, m))
-- nullif
count(nullif(few, 3))
-- nullif.text
count(nullif(word, other))
-- greatest
sum(greatest(n, m, few))
-- greatest.text
max(greatest(word, other))
-- greatest.nulls
sum(greatest(maybe_n, m))
-- least
sum(least(x, y))
-- least.text
max(least(word, other))
-- if
sum(if(flag, n, m))
-- if.text
max(if(flag, word, other))
-- ifnull
max(ifnull(maybe, word))
-- nvl2
max(nvl2(maybe, word, other))
-- nvl2 duckdb
max(CASE WHEN maybe IS NOT NULL THEN word ELSE other END)
-- cast.text_of_integer
max(CAST(big AS VARCHAR))
-- cast.text_of_double
max(CAST(x AS VARCHAR))
-- cast.text_of_decimal
max(CAST(price AS VARCHAR))
-- cast.text_of_date
max(CAST(day AS VARCHAR))
-- cast.text_of_timestamp
max(CAST(ts AS VARCHAR))
-- cast.text_of_boolean
max(CAST(flag AS VARCHAR))
-- cast.integer_of_text
sum(CAST(digits AS BIGINT))
-- cast.double_of_text
sum(CAST(digits AS DOUBLE))
-- cast.timestamp_of_text
max(CAST(moment AS TIMESTAMP))
-- cast.date_of_text
max(CAST(left(moment, 10) AS DATE))
-- cast.decimal_of_double
sum(CAST(x AS DECIMAL(12, 2)))
-- cast.integer_of_double
sum(CAST(x AS INTEGER))
-- case.ladder
sum(CASE WHEN n < -500000 THEN 1 WHEN n < 0 THEN 2 WHEN n < 500000 THEN 3 WHEN m < 100 THEN 4 ELSE 5 END)
-- case.texts
max(CASE WHEN m < 2500 THEN 'low' WHEN m < 5000 THEN 'middle' WHEN m < 7500 THEN word ELSE other END)
-- case.values
sum(CASE few WHEN 1 THEN 10 WHEN 2 THEN 20 WHEN 3 THEN 15 WHEN 4 THEN n ELSE m END)
-- like
count(*) FILTER (WHERE name LIKE '%ko%lu%')
-- like.mixed
count(*) FILTER (WHERE mixed LIKE '_a%7_')
-- like.column
count(*) FILTER (WHERE name LIKE left(word, 2) || '%')
-- ilike
count(*) FILTER (WHERE name ILIKE '%KORU%')
-- in
count(*) FILTER (WHERE word IN ('kobe', 'lumo', 'rasi', 'tapo'))
-- compare.texts
count(*) FILTER (WHERE word < other)
-- compare.equal
count(*) FILTER (WHERE word = other)
-- arithmetic
sum(n * 2 + m - few)
-- arithmetic.decimal
sum(price * 1.19 + 3)
-- divide
sum(x / y)
-- divide.decimal
sum(price / m)
