"""Layout of rowsets over the keys: `nyala fs layout`.

`table_layout` collects the key intervals and sizes of rowsets and how high they overlap, which is what compactions
lower; `layout_text` and `layout_svg` draw that.
"""
