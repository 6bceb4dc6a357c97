"""Execution of a plan: its context, streams of morsels, threads, memory, progress.

`context.ExecutionContext` has everything that one execution shares: threads, memory (`memory`), the cancel event,
progress (`progress`). Operators exchange `stream.Stream`s, whose morsels threads take one by one; `adaptive_threads`
lets threads go that slow the others down.
"""
