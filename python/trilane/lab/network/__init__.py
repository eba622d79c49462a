"""The network that is emulated between client and server."""
