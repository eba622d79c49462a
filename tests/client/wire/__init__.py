"""The native connections, and the client on them, against servers that are not ours."""
