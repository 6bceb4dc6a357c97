"""Placement and repair: the coordinator compares the catalog with reports and sends orders to tablet servers.

`coordinator` runs at the leading master. It takes a `cluster_view` of catalog and reports, `repair` and `placement`
decide what is missing and where it goes, and `order_book` keeps the resulting `orders` until they are carried out.
"""
