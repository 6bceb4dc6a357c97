The questions of the public db-benchmark, in our tables' names. A join's result is summed up, so that the join is measured
and not the transfer of its rows.

-- G1
SELECT id1, sum(v1) AS v1 FROM x GROUP BY id1
-- G2
SELECT id1, id2, sum(v1) AS v1 FROM x GROUP BY id1, id2
-- G3
SELECT id3, sum(v1) AS v1, avg(v3) AS v3 FROM x GROUP BY id3
-- G4
SELECT id4, avg(v1) AS v1, avg(v2) AS v2, avg(v3) AS v3 FROM x GROUP BY id4
-- G5
SELECT id6, sum(v1) AS v1, sum(v2) AS v2, sum(v3) AS v3 FROM x GROUP BY id6
-- G6
SELECT id4, id5, percentile_cont(0.5) WITHIN GROUP (ORDER BY v3) AS median_v3, stddev_samp(v3) AS sd_v3 FROM x
GROUP BY id4, id5
-- G7
SELECT id3, max(v1) - min(v2) AS range_v1_v2 FROM x GROUP BY id3
-- G8
SELECT id6, largest2_v3 FROM (SELECT id6, v3 AS largest2_v3, row_number() OVER (PARTITION BY id6 ORDER BY v3 DESC) AS
order_v3 FROM x) AS ordered WHERE order_v3 <= 2
-- G9
SELECT id2, id4, power(corr(v1, v2), 2) AS r2 FROM x GROUP BY id2, id4
-- G10
SELECT id1, id2, id3, id4, id5, id6, sum(v3) AS v3, count(*) AS n FROM x GROUP BY id1, id2, id3, id4, id5, id6
-- J1
SELECT count(*), sum(v1), sum(small_v) FROM x JOIN small ON j1 = small_id
-- J2
SELECT count(*), sum(v1), sum(medium_v) FROM x JOIN medium ON j2 = medium_id
-- J3
SELECT count(*), sum(v1), sum(medium_v) FROM x LEFT JOIN medium ON j2 = medium_id
-- J4
SELECT count(*), sum(v1), sum(medium_v) FROM x JOIN medium ON 'm' || j2 = medium_text
-- J5
SELECT count(*), sum(v1), sum(big_v) FROM x JOIN big ON j3 = big_id
-- J6
SELECT count(*), sum(v1), sum(big_v) FROM x JOIN big ON 'b' || j3 = big_text
-- J7
SELECT id1, medium_group, count(*), sum(v3 * medium_v) FROM x JOIN medium ON j2 = medium_id GROUP BY id1, medium_group
-- J8
SELECT count(*), sum(a.v1) FROM x a JOIN (SELECT id3, max(v3) AS top FROM x GROUP BY id3) AS b ON a.id3 = b.id3 AND a.v3 = b.top
-- J9
SELECT count(*) FROM x WHERE j3 NOT IN (SELECT big_id FROM big WHERE big_group < 50)
