"""Servers that are not ours, for tests: started, waited for, logged and stopped.

A server that `servers/` has is started from there (`shipped`); what is here besides has what no
user of the lab needs: client certificates, the ports of a predecessor, answers that are for tests.
Each module is one program; `process` is what they share; `authority` makes the
certificates; `chaos` is the server that misbehaves on purpose, `grpc_chaos` the one of gRPC.
"""
