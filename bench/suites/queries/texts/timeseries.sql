Questions about time series, after TSBS's devops. {start} is in the middle of the data; {short}, {hour} and {day} end spans
of 5 minutes, 1 hour and 12 hours after it, or at the end of the data.

-- single_1
SELECT date_trunc('minute', time) AS minute, max(usage_user) FROM cpu WHERE hostname = 'host_1' AND time >= TIMESTAMP '{start}'
AND time < TIMESTAMP '{hour}' GROUP BY 1 ORDER BY 1
-- single_5_metrics
SELECT date_trunc('minute', time) AS minute, max(usage_user), max(usage_system), max(usage_idle), max(usage_nice),
max(usage_iowait) FROM cpu WHERE hostname = 'host_2' AND time >= TIMESTAMP '{start}' AND time < TIMESTAMP '{day}'
GROUP BY 1 ORDER BY 1
-- eight_hosts
SELECT date_trunc('minute', time) AS minute, max(usage_user) FROM cpu WHERE hostname IN ('host_0', 'host_1', 'host_2', 'host_3',
'host_5', 'host_8', 'host_13', 'host_21') AND time >= TIMESTAMP '{start}' AND time < TIMESTAMP '{hour}' GROUP BY 1 ORDER BY 1
-- raw_points
SELECT time, usage_user, usage_system, usage_idle FROM cpu WHERE hostname = 'host_3' AND time >= TIMESTAMP '{start}'
AND time < TIMESTAMP '{hour}' ORDER BY time
-- max_all
SELECT date_trunc('hour', time) AS hour, max(usage_user), max(usage_system), max(usage_idle), max(usage_nice), max(usage_iowait),
max(usage_irq), max(usage_softirq), max(usage_steal), max(usage_guest), max(usage_guest_nice) FROM cpu
WHERE hostname = 'host_1' GROUP BY 1 ORDER BY 1
-- double_groupby_1
SELECT date_trunc('hour', time) AS hour, hostname, avg(usage_user) FROM cpu WHERE time >= TIMESTAMP '{start}'
AND time < TIMESTAMP '{day}' GROUP BY 1, 2 ORDER BY 1, 2
-- double_groupby_all
SELECT date_trunc('hour', time) AS hour, hostname, avg(usage_user), avg(usage_system), avg(usage_idle), avg(usage_nice),
avg(usage_iowait), avg(usage_irq), avg(usage_softirq), avg(usage_steal), avg(usage_guest), avg(usage_guest_nice) FROM cpu
GROUP BY 1, 2 ORDER BY 1, 2
-- groupby_orderby_limit
SELECT date_trunc('minute', time) AS minute, max(usage_user) FROM cpu WHERE time < TIMESTAMP '{start}' GROUP BY 1
ORDER BY 1 DESC LIMIT 5
-- high_cpu_all
SELECT * FROM cpu WHERE usage_user > 90 AND time >= TIMESTAMP '{start}' AND time < TIMESTAMP '{hour}'
-- high_cpu_1
SELECT * FROM cpu WHERE usage_user > 90 AND hostname = 'host_3'
-- often_high
SELECT hostname, count(*) AS n FROM cpu WHERE usage_user > 90 GROUP BY hostname HAVING count(*) > 10 ORDER BY n DESC, hostname
-- lastpoint
SELECT DISTINCT ON (hostname) hostname, time, usage_user, usage_idle FROM cpu ORDER BY hostname, time DESC
-- lastpoint_join
SELECT c.hostname, c.time, c.usage_user FROM cpu c JOIN (SELECT hostname, max(time) AS latest FROM cpu GROUP BY hostname) AS l
ON c.hostname = l.hostname AND c.time = l.latest ORDER BY c.hostname
-- lastpoint_argmax
SELECT hostname, arg_max(usage_user, time), max(time) FROM cpu GROUP BY hostname
-- downsample_5_minutes
SELECT hostname, date_bin(INTERVAL '5' MINUTE, time, TIMESTAMP '2026-01-01') AS bucket, avg(usage_user), min(usage_user),
max(usage_user), count(*) FROM cpu GROUP BY 1, 2
-- downsample_5_minutes duckdb
SELECT hostname, time_bucket(INTERVAL '5' MINUTE, time, TIMESTAMP '2026-01-01') AS bucket, avg(usage_user), min(usage_user),
max(usage_user), count(*) FROM cpu GROUP BY 1, 2
-- gap_fill
SELECT h.hostname, g.bucket, coalesce(c.mean, 0) FROM hosts h CROSS JOIN
(SELECT generate_series AS bucket FROM generate_series(TIMESTAMP '{start}', TIMESTAMP '{hour}', INTERVAL '10' SECOND)) AS g
LEFT JOIN (SELECT hostname, time AS bucket, avg(usage_user) AS mean FROM cpu WHERE time >= TIMESTAMP '{start}'
AND time <= TIMESTAMP '{hour}' GROUP BY 1, 2) AS c ON c.hostname = h.hostname AND c.bucket = g.bucket
-- gap_count
SELECT hostname, count(*), max(gap) FROM (SELECT hostname, time - lag(time) OVER (PARTITION BY hostname ORDER BY time) AS gap FROM cpu)
AS gaps WHERE gap > INTERVAL '10' SECOND GROUP BY hostname
-- locf
SELECT count(*), sum(filled) FROM (SELECT last_value(high) IGNORE NULLS OVER (PARTITION BY hostname ORDER BY time ROWS BETWEEN
UNBOUNDED PRECEDING AND CURRENT ROW) AS filled FROM (SELECT hostname, time, CASE WHEN usage_user > 50 THEN usage_user END AS high
FROM cpu) AS marked) AS carried
-- locf duckdb
SELECT count(*), sum(filled) FROM (SELECT last_value(high IGNORE NULLS) OVER (PARTITION BY hostname ORDER BY time ROWS BETWEEN
UNBOUNDED PRECEDING AND CURRENT ROW) AS filled FROM (SELECT hostname, time, CASE WHEN usage_user > 50 THEN usage_user END AS high
FROM cpu) AS marked) AS carried
-- percentiles
SELECT hostname, percentile_cont(0.5) WITHIN GROUP (ORDER BY usage_user), percentile_cont(0.95) WITHIN GROUP (ORDER BY usage_user),
percentile_cont(0.99) WITHIN GROUP (ORDER BY usage_system) FROM cpu GROUP BY hostname
-- percentile_all
SELECT percentile_cont(0.95) WITHIN GROUP (ORDER BY usage_user), percentile_disc(0.5) WITHIN GROUP (ORDER BY usage_idle) FROM cpu
-- top_100
SELECT hostname, time, usage_user FROM cpu ORDER BY usage_user DESC, hostname, time LIMIT 100
-- top_per_hour
SELECT hour, hostname, mean FROM (SELECT hour, hostname, mean, row_number() OVER (PARTITION BY hour ORDER BY mean DESC, hostname) AS
place FROM (SELECT date_trunc('hour', time) AS hour, hostname, avg(usage_user) AS mean FROM cpu GROUP BY 1, 2) AS means) AS ranked
WHERE place <= 3
-- as_of
SELECT a.alert, a.severity, c.time, c.usage_user FROM alerts a JOIN LATERAL (SELECT time, usage_user FROM cpu
WHERE cpu.hostname = a.hostname AND cpu.time <= a.time ORDER BY time DESC LIMIT 1) AS c ON TRUE WHERE a.alert < 20
-- as_of duckdb
SELECT a.alert, a.severity, c.time, c.usage_user FROM alerts a ASOF JOIN cpu c ON c.hostname = a.hostname AND a.time >= c.time
WHERE a.alert < 20
-- around_alerts
SELECT a.alert, count(*), avg(c.usage_user) FROM alerts a JOIN cpu c ON c.hostname = a.hostname AND c.time BETWEEN a.time -
INTERVAL '5' MINUTE AND a.time GROUP BY a.alert
-- rate_of_change
SELECT hostname, max(step), avg(abs(step)) FROM (SELECT hostname, usage_user - lag(usage_user) OVER (PARTITION BY hostname
ORDER BY time) AS step FROM cpu) AS steps GROUP BY hostname
-- moving_average
SELECT hostname, max(mean) FROM (SELECT hostname, avg(usage_user) OVER (PARTITION BY hostname ORDER BY time RANGE BETWEEN
INTERVAL '5' MINUTE PRECEDING AND CURRENT ROW) AS mean FROM cpu WHERE time >= TIMESTAMP '{start}' AND time < TIMESTAMP '{hour}')
AS means GROUP BY hostname
-- sessions
SELECT hostname, count(*), max(points) FROM (SELECT hostname, run, count(*) AS points FROM (SELECT hostname, sum(starts) OVER
(PARTITION BY hostname ORDER BY time) AS run FROM (SELECT hostname, time, CASE WHEN time - lag(time) OVER (PARTITION BY hostname
ORDER BY time) > INTERVAL '10' SECOND THEN 1 ELSE 0 END AS starts FROM cpu) AS marked) AS runs GROUP BY 1, 2) AS sessions
GROUP BY hostname
-- by_region
SELECT region, date_trunc('hour', time) AS hour, avg(usage_user), max(usage_system) FROM cpu JOIN hosts USING (hostname)
GROUP BY 1, 2
-- by_service_filtered
SELECT service, team, count(DISTINCT hostname), avg(usage_user + usage_system) FROM cpu JOIN hosts USING (hostname)
WHERE region IN ('region-1', 'region-2', 'region-4') AND time >= TIMESTAMP '{start}' GROUP BY service, team
-- histogram
SELECT CAST(floor(usage_user / 5) AS INT) AS bucket, count(*) FROM cpu GROUP BY 1 ORDER BY 1
-- correlation
SELECT hostname, corr(usage_user, usage_system), stddev_samp(usage_idle) FROM cpu GROUP BY hostname
