"""YCSB's core workloads (Cooper et al., Benchmarking Cloud Serving Systems with YCSB, 2010; the paper, section 6.3).

workloads     A to F and their proportions of operations
generators    zipfian, uniform and latest: distributions of the requested keys
operations    both together: the operations of one client, generated before the clock runs
bindings/     the stores: each a `Binding` that creates `Client`s
runner        one store after the other: load, workloads, results
client_threads, client_process
              clients that all start at once
measured      durations and percentiles
report        tables, charts, JSON, targets
command       `nyala bench ycsb`
"""
