"""Primary keys as bytes that compare as keys do, as machine words, and as hashes.

A key is encoded so that its bytes compare as its columns do (`key_encoding`; `key_codec` for one key). In bulk, `keys`
holds the columns, and `key_words` brings them to machine words where they fit. `hashing` has the functions by which
rows find their bucket and Bloom filters their bits; they are part of the format.
"""
