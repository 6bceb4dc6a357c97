"""Window functions: where the rows of a window lie, and what each call makes of them."""
