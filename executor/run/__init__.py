"""Execution of a plan: its context, streams of morsels, threads, memory, progress."""
