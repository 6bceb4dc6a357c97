"""Layout of rowsets over the keys: `nyala fs layout`."""
