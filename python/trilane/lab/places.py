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
    """The folder `name` that ships with Trilane; it need not exist."""
    package = Path(trilane.__file__).resolve().parent
    # In a checkout the package lies in python/trilane and the folders at the root.
    checkout = package.parent.parent
    if (checkout / "Cargo.toml").is_file() and package.parent.name == "python":
        return checkout / name
    return package / "share" / name


def _folders(name: str) -> list[Path]:
    own, with_trilane = Path(name).absolute(), shipped(name)
    folders = [own] if own.resolve() == with_trilane.resolve() else [own, with_trilane]
    return [folder for folder in folders if folder.is_dir()]
