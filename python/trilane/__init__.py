"""Trilane: the same request over HTTP/1.1, HTTP/2 and HTTP/3, on one engine."""

from trilane._core import build_profile, revision
from trilane._core import version as __version__

__all__ = ["__version__", "build_profile", "revision"]
