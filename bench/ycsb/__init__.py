"""YCSB's core workloads (Cooper et al., Benchmarking Cloud Serving Systems with YCSB, 2010; the paper, section 6.3).

workloads     A to F and their proportions: what is asked for
generators    zipfian, uniform and latest: which keys are asked for
operations    both together: the operations of one client, made before the clock runs
bindings/     the stores: each a `Binding`, that makes `Client`s
runner        one store after the other: load, workloads, what was found
client_threads, client_process
              clients, that all begin at once
measured      durations and percentiles
report        tables, charts, JSON, targets
command       `nyala bench ycsb`
"""
