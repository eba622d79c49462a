"""Where experiments, contenders and servers lie: yours first, then those of Trilane."""

from __future__ import annotations

from pathlib import Path

import trilane


def experiments() -> list[Path]:
    """Folders of experiment files, the first to be searched first."""
    return _folders("experiments")


def contenders() -> list[Path]:
    """Folders whose folders are client programs."""
    return _folders("contenders")


def servers() -> list[Path]:
    """Folders whose folders are servers."""
    return _folders("servers")


def shipped(name: str) -> Path:
    """The folder `name` that comes with Trilane; it need not exist."""
    # In a wheel these are folders, in a checkout links to those at its root.
    return (Path(trilane.__file__).parent / "share" / name).resolve()


def _folders(name: str) -> list[Path]:
    own, with_trilane = Path(name).resolve(), shipped(name)
    return [folder for folder in dict.fromkeys((own, with_trilane)) if folder.is_dir()]
