"""Decisions between a request and its response, for `Client` and `AsyncClient`. No I/O, no clock.

The blocking and the asynchronous client send, wait and close; what that means is decided here.
"""
