# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "click==8.5.1",
#   "granian[uvloop]==2.8.7",
#   "uvloop==0.23.0",
# ]
# ///
"""Runs Granian with its own command line; the application is `../asgi/app.py`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("granian", run_name="__main__", alter_sys=True)
