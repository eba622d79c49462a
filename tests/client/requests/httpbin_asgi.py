"""httpbin for Hypercorn, whose own way with WSGI fails for answers without content."""

from __future__ import annotations

from a2wsgi import WSGIMiddleware
from httpbin import app as httpbin

app = WSGIMiddleware(httpbin)
