"""Chromium without a window: what a page is once it has been drawn."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from peers.running import absent


def chromium() -> str:
    """The browser; without it a skip at home and a failure in CI."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        absent("chromium is not installed: apt-get install chromium")
    return path


def document(url: str, folder: Path, width: int = 1280, *, says: str = "") -> str:
    """The document as it stands once a browser has drawn it.

    `folder` is for the browser's own files. Each line on its console fits the expression `says`;
    without it there is none.
    """
    done = subprocess.run(
        [
            *(chromium(), "--headless", "--no-sandbox", "--disable-gpu"),
            *("--disable-background-networking", "--enable-logging=stderr"),
            *(f"--user-data-dir={folder / 'profile'}", f"--window-size={width},2000"),
            # Virtual time stands still while the page has work to do, however long that takes.
            *("--virtual-time-budget=20000", "--dump-dom", url),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    told = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert [line for line in told if not says or re.search(says, line) is None] == []
    return done.stdout
