"""Links of a built site: each leads to a file and a place that are there, and none is loaded."""

from __future__ import annotations

from collections.abc import Callable
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
        # It is served at addresses of any depth, so its links begin at the site's root.
        links = list(dict.fromkeys(page(path).links)) if path.name != "404.html" else []
        wrong = [f"loads {target}" for target in page(path).loaded if urlsplit(target).netloc]
        wrong += filter(None, (_problem(path, target, page) for target in links))
        found += [f"{path.relative_to(site)}: {problem}" for problem in wrong]
    return found


def _problem(path: Path, target: str, page: Callable[[Path], Page]) -> str | None:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        whole = parts.scheme not in ("http", "https") or "." in parts.netloc
        return None if whole else f"{target} has no host"
    there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not there.is_file():
        return f"{target} is not there"
    anchor = unquote(parts.fragment)
    if anchor and there.suffix == ".html" and anchor not in page(there).anchors:
        return f"{target} has no such anchor"
    return None
