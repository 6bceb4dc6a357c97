"""Changes of existing rows: one representation, in memory and in files.

A change enters a `delta_memstore`, is flushed to a `delta_file` (`delta_format` draws it), and is merged with others
by compactions (`deltas`, `version_merge`). A scan resolves the deltas below its timestamp to one value per changed
cell (`latest_state`).
"""
