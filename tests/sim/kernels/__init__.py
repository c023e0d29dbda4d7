"""Kernels written by hand, as users write them."""
