Queries over wide rows, texts, windows, long lists, common table expressions and self joins (`wide_data`).
{ids}: a list of 1,000 integers; {names}: a list of 200 texts; {rows}: the rows of `wide`.

-- top_int
SELECT id, i64 FROM wide ORDER BY i64 LIMIT 10
-- top_double
SELECT id, f FROM wide ORDER BY f DESC LIMIT 10
-- top_text
SELECT id, suniq FROM wide ORDER BY suniq LIMIT 10
-- top_two_keys
SELECT id, g20, f FROM wide ORDER BY g20 DESC, f LIMIT 20
-- top_decimal
SELECT id, dec30, dec12 FROM wide ORDER BY dec30 DESC, id LIMIT 10
-- top_timestamp
SELECT id, ts2 FROM wide WHERE b ORDER BY ts2 DESC LIMIT 50
-- top_nulls
SELECT id, nf FROM wide ORDER BY nf DESC NULLS LAST, id LIMIT 10
-- top_wide_rows
SELECT * FROM wide WHERE g20 = 3 ORDER BY f LIMIT 10
-- top_by_expression
SELECT id, m11 * m12 - m13 AS score FROM wide ORDER BY m11 * m12 - m13 DESC LIMIT 10
-- page_far_behind
SELECT id, f FROM wide ORDER BY f LIMIT 10 OFFSET 1000
-- filter_half
SELECT count(*), sum(m11) FROM wide WHERE m01 < 5
-- filter_many
SELECT count(*) FROM wide WHERE g20 < 10 AND m02 > 50 AND f < 40 AND s10 <> 'x' AND NOT b AND d >= DATE '2022-01-01'
-- filter_or
SELECT count(*) FROM wide WHERE g1k = 7 OR m03 = 99 OR s1k LIKE 'b%' OR f > 500
-- in_integers
SELECT count(*), sum(m11) FROM wide WHERE g100k IN ({ids})
-- in_texts
SELECT count(*), max(f) FROM wide WHERE s20k IN ({names})
-- not_in
SELECT count(*) FROM wide WHERE g1k NOT IN ({ids})
-- in_subquery
SELECT count(*) FROM wide WHERE g100k IN (SELECT g100k FROM wide WHERE f > 300)
-- not_exists
SELECT count(*) FROM wide w WHERE NOT EXISTS (SELECT 1 FROM wide v WHERE v.g100k = w.g100k AND v.m01 = 0)
-- sums_of_all_metrics
SELECT sum(m01), sum(m02), sum(m03), sum(m04), sum(m05), sum(m06), sum(m07), sum(m08), sum(m09), sum(m10), sum(m11),
sum(m12), sum(m13), sum(m14), sum(m15), sum(m16), sum(m17), sum(m18), sum(m19), sum(m20) FROM wide
-- sums_by_group
SELECT g1k, sum(m01), avg(m02), min(m03), max(m04), sum(m11), avg(m12), min(m13), max(m14), count(*) FROM wide GROUP BY g1k
-- sums_of_cases
SELECT sum(CASE WHEN g20 = 0 THEN m11 ELSE 0 END), sum(CASE WHEN g20 = 1 THEN m11 ELSE 0 END),
sum(CASE WHEN g20 = 2 THEN m11 ELSE 0 END), sum(CASE WHEN g20 = 3 THEN m11 ELSE 0 END),
sum(CASE WHEN g20 = 4 THEN m11 ELSE 0 END), sum(CASE WHEN g20 = 5 THEN m11 ELSE 0 END),
sum(CASE WHEN g20 = 6 THEN m11 ELSE 0 END), sum(CASE WHEN g20 = 7 THEN m11 ELSE 0 END) FROM wide
-- case_ladder
SELECT CASE WHEN f < 5 THEN 'tiny' WHEN f < 20 THEN 'small' WHEN f < 60 THEN 'middle' WHEN f < 200 THEN 'large'
ELSE 'huge' END AS size, count(*), avg(m11) FROM wide GROUP BY 1 ORDER BY 1
-- filtered_aggregates
SELECT g20, count(*) FILTER (WHERE b), sum(m11) FILTER (WHERE f > 20), max(suniq) FILTER (WHERE m01 = 3) FROM wide
GROUP BY g20
-- three_keys
SELECT g20, s10, b, count(*), avg(f) FROM wide GROUP BY g20, s10, b
-- six_keys
SELECT g2, g20, s10, b, label, fz, count(*) FROM wide GROUP BY g2, g20, s10, b, label, fz ORDER BY count(*) DESC, 1, 2, 3, 4, 5, 6
LIMIT 20
-- group_by_large_keys
SELECT i64, sutf, count(*), sum(m01) FROM wide GROUP BY i64, sutf ORDER BY count(*) DESC, i64, sutf LIMIT 10
-- having
SELECT s20k, count(*) AS n, avg(f) FROM wide GROUP BY s20k HAVING count(*) > 60 AND avg(f) > 30
-- rollup
SELECT s10, g20, count(*), sum(m11) FROM wide GROUP BY ROLLUP (s10, g20)
-- count_distinct_many
SELECT count(DISTINCT g100k), count(DISTINCT s20k), count(DISTINCT i64), count(DISTINCT d) FROM wide
-- count_distinct_by_group
SELECT s10, count(DISTINCT i62), count(DISTINCT sutf) FROM wide GROUP BY s10
-- distinct_rows
SELECT count(*) FROM (SELECT DISTINCT g1k, s10, b FROM wide) AS rows_
-- distinct_on
SELECT DISTINCT ON (g1k) g1k, id, f FROM wide ORDER BY g1k, f DESC, id
-- median_by_group
SELECT g20, percentile_cont(0.5) WITHIN GROUP (ORDER BY f), percentile_cont(0.95) WITHIN GROUP (ORDER BY m11) FROM wide
GROUP BY g20
-- spread
SELECT s1k, stddev_samp(f), var_pop(m11), corr(m11, m12) FROM wide GROUP BY s1k HAVING count(*) * 1000 > {rows}
-- string_agg
SELECT g1k, string_agg(s10, ',' ORDER BY id) FROM wide WHERE id < 5000 GROUP BY g1k
-- argmax
SELECT g1k, arg_max(id, f), arg_min(suniq, f) FROM wide GROUP BY g1k
-- min_max_texts
SELECT min(suniq), max(suniq), min(sutf), max(sid), min(s20k) FROM wide
-- min_max_texts_by_group
SELECT g20, min(suniq), max(sutf) FROM wide GROUP BY g20
-- window_row_number
SELECT count(*) FROM (SELECT id, row_number() OVER (PARTITION BY g1k ORDER BY f DESC, id) AS place FROM wide) AS ranked
WHERE place <= 3
-- window_rank_text
SELECT count(*), max(place) FROM (SELECT rank() OVER (PARTITION BY s20k ORDER BY m05) AS place FROM wide) AS ranked
-- window_running_sum
SELECT max(total), count(*) FROM (SELECT sum(m01) OVER (PARTITION BY g100k ORDER BY ts) AS total FROM wide) AS sums
-- window_moving_average
SELECT count(*), sum(mean) FROM (SELECT avg(m11) OVER (PARTITION BY g20 ORDER BY id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)
AS mean FROM wide) AS means
-- window_lag
SELECT count(*), sum(step) FROM (SELECT m05 - lag(m05) OVER (PARTITION BY label ORDER BY ts) AS step FROM wide) AS steps
-- window_share
SELECT g1k, sum(m11) AS total, sum(m11) / sum(sum(m11)) OVER () AS share FROM wide GROUP BY g1k ORDER BY total DESC, g1k LIMIT 10
-- window_first_value
SELECT count(DISTINCT first_) FROM (SELECT first_value(suniq) OVER (PARTITION BY g1k ORDER BY f, id) AS first_ FROM wide) AS firsts
-- window_ntile
SELECT quarter, count(*), min(f), max(f) FROM (SELECT f, ntile(4) OVER (ORDER BY f, id) AS quarter FROM wide) AS quarters
GROUP BY quarter
-- cte_twice
WITH totals AS (SELECT g1k, sum(m11) AS total FROM wide GROUP BY g1k)
SELECT count(*) FROM totals WHERE total > (SELECT avg(total) FROM totals)
-- cte_chain
WITH recent AS (SELECT * FROM wide WHERE d >= DATE '2024-01-01'), busy AS (SELECT g100k, count(*) AS n FROM recent GROUP BY
g100k), ranked AS (SELECT g100k, n, dense_rank() OVER (ORDER BY n DESC) AS place FROM busy)
SELECT place, count(*) FROM ranked WHERE place <= 5 GROUP BY place
-- recursive
WITH RECURSIVE walk(n, stop) AS (SELECT 1, 0 UNION ALL SELECT n + 1, (stop * 7 + 3) % 1000 FROM walk WHERE n < 200)
SELECT count(*), sum(m11) FROM wide JOIN walk ON g1k = stop
-- self_join_key
SELECT count(*), sum(a.m11 - b.m11) FROM wide a JOIN wide b ON b.id = a.id + 1
-- self_join_group
SELECT count(*) FROM wide a JOIN wide b ON a.g100k = b.g100k WHERE a.m01 = 1 AND b.m01 = 2
-- self_join_large_key
SELECT count(*), max(b.f) FROM wide a JOIN wide b ON a.i64 = b.i64 AND a.id < b.id WHERE a.g20 = 4
-- self_join_text
SELECT count(*) FROM wide a JOIN wide b ON a.sutf = b.sutf WHERE a.g20 = 5 AND b.g20 = 6
-- join_text_key
SELECT count(*), max(n.note) FROM wide w JOIN notes n ON n.author = w.s20k WHERE w.g1k < 20
-- anti_join_text
SELECT count(*) FROM notes n LEFT JOIN wide w ON w.s20k = n.author WHERE w.id IS NULL
-- join_dimension_group
SELECT title, region, count(*), sum(m11) FROM wide JOIN labels USING (label) GROUP BY title, region ORDER BY title
-- union_texts
SELECT count(*) FROM (SELECT s20k AS name FROM wide UNION SELECT author FROM notes) AS names
-- except_integers
SELECT count(*) FROM (SELECT g100k FROM wide WHERE g2 = 0 EXCEPT SELECT g100k FROM wide WHERE m02 < 20) AS rest
-- range_join
SELECT count(*) FROM wide w JOIN (SELECT id AS low, id + 50 AS high FROM wide WHERE g1k = 1) AS r
ON w.id BETWEEN r.low AND r.high
-- like_prefix
SELECT count(*) FROM notes WHERE author LIKE 'ba%'
-- like_inside
SELECT count(*) FROM notes WHERE body LIKE '%kola%' AND body NOT LIKE '%basi%'
-- ilike
SELECT count(*) FROM notes WHERE body ILIKE '%KOLA%'
-- regexp
SELECT count(*) FROM notes WHERE regexp_like(body, '(ma|na)ko[a-z]+ (ba|be)')
-- regexp duckdb
SELECT count(*) FROM notes WHERE regexp_matches(body, '(ma|na)ko[a-z]+ (ba|be)')
-- regexp_part
SELECT regexp_substr(link, '://([^.]+)', 1, 1, '', 1) AS host, count(*) FROM notes GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10
-- regexp_part duckdb
SELECT regexp_extract(link, '://([^.]+)', 1) AS host, count(*) FROM notes GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10
-- regexp_replace
SELECT sum(length(regexp_replace(body, '[aeiou]', '', 'g'))) FROM notes
-- text_functions
SELECT sum(length(upper(body))), max(lower(author)), count(DISTINCT left(body, 3)), sum(length(replace(body, 'ko', ''))),
max(trim(substr(body, 5, 9))), max(right(body, 4)) FROM notes
-- position
SELECT sum(position('ma' IN body)), sum(strpos(link, '/')) FROM notes
-- split_part
SELECT split_part(body, ' ', 2) AS word, count(*) FROM notes GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10
-- pad_and_hash
SELECT count(DISTINCT lpad(tag, 12, '0')), max(md5(author)), max(lower(to_hex(note))), max(reverse(author)) FROM notes
-- translate
SELECT max(translate(body, 'abc', 'xyz')), sum(length(concat(author, '/', tag))) FROM notes
-- concatenation
SELECT author || ':' || coalesce(tag, '-') AS label, count(*) FROM notes GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10
-- group_by_length
SELECT length(body), count(*), min(body) FROM notes GROUP BY length(body)
-- format_time
SELECT to_char(ts, 'YYYY-MM-DD HH24'), count(*) FROM wide GROUP BY 1 ORDER BY 1 LIMIT 100
-- format_time duckdb
SELECT strftime(ts, '%Y-%m-%d %H'), count(*) FROM wide GROUP BY 1 ORDER BY 1 LIMIT 100
-- parts_of_time
SELECT extract(year FROM ts2), extract(month FROM ts2), extract(dow FROM ts2), count(*) FROM wide GROUP BY 1, 2, 3
-- truncated_time
SELECT date_trunc('hour', ts) AS hour, count(*), avg(f) FROM wide GROUP BY 1 ORDER BY 1
-- time_arithmetic
SELECT count(*) FROM wide WHERE ts2 - INTERVAL '3' DAY > ts AND d + INTERVAL '1' MONTH < DATE '2025-01-01'
-- wide_decimals
SELECT g20, sum(dec30), max(dec30), avg(dec18), sum(dec12 * dec18) FROM wide GROUP BY g20
-- casts
SELECT sum(CAST(suniq_ AS BIGINT) % 1000), sum(CAST(m11 AS INT)), max(CAST(g1k AS VARCHAR)), sum(CAST(f AS DECIMAL(12, 2)))
FROM (SELECT substr(suniq, 6) AS suniq_, m11, g1k, f FROM wide) AS w
-- arithmetic
SELECT sum(abs(m11 - m12)), sum(sqrt(f)), sum(round(f, 1)), sum(floor(f)), sum(ln(f)), sum(power(r, 2)), sum(greatest(m01, m06))
FROM wide
-- nulls
SELECT count(ni), count(nf), count(ns), count(nd), sum(coalesce(ni, -1)), count(*) FILTER (WHERE ns IS NULL AND nd IS NOT NULL)
FROM wide
-- group_by_nulls
SELECT ns, count(*), avg(nf), min(ni), max(nd) FROM wide GROUP BY ns ORDER BY ns NULLS FIRST
-- point
SELECT * FROM wide WHERE id = {rows} / 2
-- point duckdb
SELECT * FROM wide WHERE id = {rows} // 2
-- narrow_range
SELECT count(*), sum(m11) FROM wide WHERE id BETWEEN 1000 AND 1999
-- result_of_many_rows
SELECT id, f, s1k FROM wide WHERE g20 = 2
