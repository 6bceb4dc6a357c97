"""How rowsets lie over the keys: `nyala fs layout`."""
