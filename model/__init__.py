"""The ground floor: types, values, keys, schemas and partitions, which all other rooms share.

    types ──► schema ──► predicates, alterations, partitions
      │          │
      └─► vectors ──► row batches ──► store.Store, the protocol that embedded stores and clusters implement
      └─► keys

Nothing here does I/O or starts threads.
"""
