"""Files as tables: inspection, scans, COPY FROM and COPY TO."""
