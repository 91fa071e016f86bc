"""The engine: fields over units, the terms of the objective, and the descent that optimises them."""
