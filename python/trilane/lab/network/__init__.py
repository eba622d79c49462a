"""Emulated networks between the servers of the lab and its clients."""
