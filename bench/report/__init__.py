"""The report of `nyala bench all`: the numbers of every benchmark as sections, one page of HTML, one of Markdown.

suite      which benchmarks there are, in which order, with which command lines
runner     each in a process of its own: its result, its log, what was left behind removed
records    what is kept of a run: the numbers, and the command, date, machine and versions that they stand for
sections   JSON of a benchmark -> `model.Section`, also `sections_sql` and `sections_cluster`; YCSB, lineitem and
           the mixed load bring their own
page       sections -> index.html, by `bars` (charts as inline SVG) and `style` (the style sheet)
markdown   sections -> benchmarks.md
"""
