"""Servers that are not ours, for tests and benchmarks: started, waited for, logged and stopped.

Standard library only, so that `bench/` can use it without an environment. Each module is one
program; `process` is what they share; `authority` makes the certificates; `chaos` is the server
that misbehaves on purpose.
"""
