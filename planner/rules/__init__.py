"""One function per file; the pipeline is the tuple `RULES`."""
