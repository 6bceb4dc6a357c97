"""A column on disk: encodings, compression, pages, and the file that they make up."""
