"""The command line: `race` is Python, `load` and `serve` are Rust."""

from trilane.cli.app import run

__all__ = ["run"]
