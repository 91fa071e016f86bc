"""Mask optimisation: fields over units, the terms of the objective, and the optimiser; `instant/` trains maskers."""
