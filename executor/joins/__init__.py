"""Joins: build sides, keys, pairs of rows, and the filters that builds send to scans."""
