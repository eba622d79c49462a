"""Servers to aim at and the emulated network before them."""
