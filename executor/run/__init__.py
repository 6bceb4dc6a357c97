"""What runs a plan: the context of an execution, streams of morsels, threads, memory, progress."""
