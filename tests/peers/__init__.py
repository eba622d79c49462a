"""Servers that are not ours, for tests and benchmarks: started, waited for, logged and stopped.

Standard library only, so that `bench/` can use it without an environment; what serves and schemas
of gRPC and the scripts of HTTP/2 need besides is imported by tests alone. Each module is one
program; `process` is what they share; `authority` makes the certificates; `chaos` is the server
that misbehaves on purpose, `grpc_chaos` the one of gRPC.
"""
