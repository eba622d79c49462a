"""Servers that break rules or stretch them, as data; `docs/conformance.md` is written from it."""
