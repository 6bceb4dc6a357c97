"""Trees and bound statements: names are resolved and types worked out here, clause by clause."""
