"""The report of `nyala bench all`: the numbers of every benchmark as sections, one page of HTML, one of Markdown.

suite      the benchmarks, their order, their command lines
runner     runs each in a separate process: its result, its log, removal of leftovers
records    the record of a run: the numbers, with the command, date, machine and versions
sections   JSON of a benchmark -> `model.Section`, also `sections_sql` and `sections_cluster`; YCSB, lineitem and
           the mixed load have their own
page       sections -> index.html, by `bars` (charts as inline SVG) and `style` (the style sheet)
markdown   sections -> benchmarks.md
"""
