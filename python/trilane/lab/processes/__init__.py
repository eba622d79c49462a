"""Processes: the one reader of /proc."""
