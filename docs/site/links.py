"""Links of a built site: each leads to a file and a place that are there, and none is loaded."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = frozenset({"script", "img", "iframe", "source", "link"})
"""Elements whose target a browser fetches to show the page."""
NAMED_ONLY = frozenset({"canonical", "edit", "prev", "next"})


@dataclass
class Page(HTMLParser):
    """What a page links to, loads and has anchors for."""

    text: str
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take what an element names."""
        given = dict(attrs)
        if name := given.get("id") or given.get("name"):
            self.anchors.add(name)
        target = given.get("src") or given.get("href")
        if target is None:
            return
        self.links.append(target)
        if tag in LOADED and given.get("rel") not in NAMED_ONLY:
            self.loaded.append(target)


def problems(site: Path) -> list[str]:
    """What is wrong with the links of the pages below `site`, a sentence each."""

    @cache
    def page(path: Path) -> Page:
        return Page(path.read_text("utf-8"))

    found = []
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site)
        found += [
            f"{name} loads {target}" for target in page(path).loaded if urlsplit(target).netloc
        ]
        # It is served for addresses at any depth, with links from the site's root.
        for target in () if path.name == "404.html" else dict.fromkeys(page(path).links):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                wrong = parts.scheme in ("http", "https") and "." not in parts.netloc
                found += [f"{name}: {target} has no host"] if wrong else []
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = there / "index.html" if there.is_dir() else there
            if not there.is_file():
                found.append(f"{name}: {target} is not there")
            elif parts.fragment and there.suffix == ".html":
                if unquote(parts.fragment) not in page(there).anchors:
                    found.append(f"{name}: {target} has no such anchor")
    return found
