"""The pictures of README.md: `make pictures` draws them from the race that is kept beside them.

The terminal is recorded as SVG while the code of `trilane race` prints to it; Chromium draws the
page. `race.json.gz` is the result of that race with all of its runs.
"""

from __future__ import annotations

import gzip
import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.terminal_theme import TerminalTheme

from peers.browser import chromium
from repository import DOCS
from trilane.lab.model.lab import LabResult
from trilane.report import html, terminal
from trilane.report.screen import Console

FOLDER = DOCS / "pictures"
THEMES = {
    "light": TerminalTheme(
        (255, 255, 255),
        (31, 35, 40),
        [
            *((31, 35, 40), (207, 34, 46), (26, 127, 55), (154, 103, 0)),
            *((9, 105, 218), (130, 80, 223), (27, 124, 131), (110, 119, 129)),
        ],
    ),
    "dark": TerminalTheme(
        (13, 17, 23),
        (230, 237, 243),
        [
            *((72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34)),
            *((88, 166, 255), (188, 140, 255), (57, 197, 207), (177, 186, 196)),
        ],
    ),
}
# Its fonts come from another host: a picture needs no network.
_FORMAT = re.sub(r" *@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code, monospace", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"
)
_WIDTH, _HEIGHT = 1000, 700


def kept() -> LabResult:
    """The race of the pictures."""
    packed = (FOLDER / "race.json.gz").read_bytes()
    return msgspec.json.decode(gzip.decompress(packed), type=LabResult)


def _console() -> Console:
    return Console(
        file=io.StringIO(),
        record=True,
        width=80,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        no_color=False,
        _environ={},
    )


def printed() -> str:
    """What `trilane race` printed, as text."""
    console = _console()
    terminal.show(kept(), console)
    return "\n".join(line.rstrip() for line in console.export_text().splitlines())


def recording(theme: str) -> str:
    """What `trilane race` printed, as an SVG in one of `THEMES`."""
    console = _console()
    console.print("[dim]$[/] [bold]trilane race[/]\n", highlight=False)
    terminal.show(kept(), console)
    drawn = console.export_svg(
        title="trilane race", theme=THEMES[theme], code_format=_FORMAT, unique_id=f"race-{theme}"
    )
    # Rich's frame is white, which a white page does not show.
    return drawn.replace("rgba(255,255,255,0.35)", "rgba(127,127,127,0.5)")


def file(theme: str) -> Path:
    """Where the recording lies."""
    return FOLDER / f"race-{theme}.svg"


def photograph(
    page: Path, theme: str, picture: Path, profile: str, *, height: int = _HEIGHT
) -> None:
    """The first screen of a page."""
    dark = ["--blink-settings=preferredColorScheme=0"] if theme == "dark" else []
    subprocess.run(
        [
            *(chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--user-data-dir={profile}", f"--window-size={_WIDTH},{height}"),
            *("--virtual-time-budget=5000", *dark, f"--screenshot={picture}", page.as_uri()),
        ],
        check=True,
        timeout=120,
        capture_output=True,
    )


def main() -> int:
    """Draw all of them."""
    for theme in THEMES:
        file(theme).write_text(recording(theme), encoding="utf-8")
    with tempfile.TemporaryDirectory() as scratch:
        page = Path(scratch, "report.html")
        page.write_text(html.render(kept()), encoding="utf-8")
        for theme in THEMES:
            photograph(page, theme, FOLDER / f"report-{theme}.png", f"{scratch}/{theme}")
    sys.stdout.write(f"drew {FOLDER}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
