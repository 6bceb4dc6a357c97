"""The client: a `Store` whose tablets are on servers."""
