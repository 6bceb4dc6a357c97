"""One file of a store as text: `nyala fs dump`."""
