# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "aioquic==1.7.2",
#   "attrs==26.1.0",
#   "certifi==2026.10.18",
#   "cffi==2.1.1",
#   "cryptography==50.0.2",
#   "h11==0.16.0",
#   "h2==4.4.1",
#   "hpack==4.2.0",
#   "hypercorn[h3]==0.18.0",
#   "hyperframe==6.1.0",
#   "priority==2.0.0",
#   "pycparser==3.12",
#   "pylsqpack==1.0.0",
#   "pyopenssl==26.4.0",
#   "service-identity==26.1.0",
#   "typing-extensions==4.16.0 ; python_full_version < '3.13'",
#   "wsproto==1.3.2",
# ]
# ///
"""Runs Hypercorn with its own command line; the application is `../asgi/app.py`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("hypercorn", run_name="__main__", alter_sys=True)
