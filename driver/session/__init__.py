"""The life of a statement: parse, bind, plan, run, with the settings and engines of one connection."""
