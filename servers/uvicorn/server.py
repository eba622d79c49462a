# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "click==8.5.1",
#   "h11==0.16.0",
#   "httptools==0.9.0",
#   "uvicorn==0.54.0",
#   "uvloop==0.23.0",
# ]
# ///
"""Runs Uvicorn with its own command line; the application is `../asgi/app.py`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("uvicorn", run_name="__main__", alter_sys=True)
