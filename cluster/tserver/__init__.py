"""The tablet server: many replicas, scans and writes for clients, reports for the master."""
