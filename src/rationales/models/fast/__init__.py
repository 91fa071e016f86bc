"""Faster ways to run a model: half-precision copies, packed rows, attention without masks, Triton kernels."""
