"""The site of docs/: its navigation, and what is refused when it is built."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.site import links
from repository import DOCS, ROOT

MADE = frozenset({"python/adapters.md", "python/client.md", "python/errors.md", "python/lab.md"})
"""With the command reference and the list of schemas, what is made when the site is built."""


def pages(nav: Any) -> Iterator[str]:
    """The pages that the navigation has, in order."""
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from pages(part)


def test_the_navigation_has_every_page_once() -> None:
    listed = list(pages(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    written = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    project = {
        name for name in listed if (ROOT / f"{name.removesuffix('.md').upper()}.md").exists()
    }
    assert sorted(listed) == sorted(written | project | MADE | {"manual.md", "schemas.md"})


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "page.html").write_text('<h2 id="here">Here</h2><a href="../a.html">a</a>')
    (tmp_path / "a.html").write_text(
        '<a href="more/page.html#here">right</a> <a href="more/page.html#there">no anchor</a>'
        '<a href="more/">a folder</a> <img src="none.png"> <a href="https://nowhere/">no host</a>'
        '<a href="https://example.org/">right</a> <script src="https://example.org/x.js"></script>'
        '<a href="#mine">no anchor here</a>'
    )
    assert links.problems(tmp_path) == [
        "a.html: loads https://example.org/x.js",
        "a.html: more/page.html#there has no such anchor",
        "a.html: more/ is not there",
        "a.html: none.png is not there",
        "a.html: https://nowhere/ has no host",
        "a.html: #mine has no such anchor",
    ]
