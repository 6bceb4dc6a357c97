"""The suites of queries: for each its generated data and its queries, as a `QuerySuite`.

`draws` draws columns of all kinds of distributions with numpy; `hits`, `wide_data` and `tpcds_schema` are the larger
data sets. The other modules are named after their suite.
"""
