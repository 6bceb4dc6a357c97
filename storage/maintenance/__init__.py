"""Work in the background: flushes, compactions, what is forgotten, and which of them comes next."""
