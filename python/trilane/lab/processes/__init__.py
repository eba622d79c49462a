"""Processes: the one place that starts, watches and ends them, and the one reader of /proc."""
