"""httpbin for Hypercorn, whose own way with WSGI fails for answers without content."""

from __future__ import annotations

from a2wsgi import WSGIMiddleware  # type: ignore[import-not-found]
from httpbin import app as httpbin  # type: ignore[import-not-found]

app = WSGIMiddleware(httpbin)
