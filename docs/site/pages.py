"""The pages of the site: those of docs/, and those made from the program itself."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import trilane.client
import trilane.lab
from trilane.cli import manual
from trilane.client import errors

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SITE = DOCS / "site"
PROJECT = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages beside docs/ that the site has, too."""

# Blocks of code are matched first and as a whole, so that nothing in them is taken for a link.
LINK = re.compile(r"^```.*?^```|\]\(([^)#\s:]+)(#[^)\s]*)?\)", re.MULTILINE | re.DOTALL)
LANGUAGES = {".py": "python", ".rs": "rust", ".toml": "toml", ".proto": "proto", ".yml": "yaml"}
ADAPTERS = ("requests", "httpx", "httpx2", "hyper", "dns", "otel")
SCHEMAS = """\
# JSON Schemas

What the commands print and read, for programs. Each name ends in its version.
[An example of a run](run-example.json) is what `trilane load --format json` prints.

| schema | what it describes |
| --- | --- |
"""


def write(folder: Path) -> None:
    """Write all pages, and what they link to, to `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("site"))
    for name in PROJECT:
        shutil.copy(ROOT / name, folder / name.lower())
    for asset in (*SITE.glob("*.css"), *SITE.glob("*.js")):
        shutil.copy(asset, folder)
    manual.main([str(folder)])
    for page in folder.glob("*.1"):
        page.unlink()
    (folder / "schemas.md").write_text(_schemas())
    reference = folder / "python"
    reference.mkdir()
    for name, text in _python().items():
        (reference / name).write_text(text)
    _link_sources(folder)


def _python() -> dict[str, str]:
    """The pages of the Python reference, of which mkdocstrings makes text."""
    client = "trilane.client"
    raised = set(errors.__all__)
    others = [name for name in trilane.client.__all__ if name not in raised]
    return {
        "client.md": _described("trilane.client", client, others),
        "errors.md": _described("trilane.client: errors", f"{client}.errors", sorted(raised)),
        "adapters.md": _described("trilane.client: its other modules", client, ADAPTERS),
        "lab.md": _described("trilane.lab", "trilane.lab", trilane.lab.__all__),
    }


def _described(title: str, module: str, names: Iterable[str]) -> str:
    return "\n\n".join([f"# {title}", *(f"::: {module}.{name}" for name in names)]) + "\n"


def _schemas() -> str:
    rows = []
    for path in sorted(DOCS.glob("*.schema.json")):
        schema: dict[str, Any] = json.loads(path.read_text("utf-8"))
        described = schema["$defs"][schema["$ref"].rpartition("/")[2]]["description"]
        first = described.partition("\n")[0]
        rows.append(f"| [`{schema['title']}`]({path.name}) | {first} |")
    return SCHEMAS + "\n".join(rows) + "\n"


def _link_sources(folder: Path) -> None:
    """Make links that lead out of docs/ lead to pages, each with the file that it names."""
    homes = {page: _home(page.relative_to(folder)) for page in sorted(folder.rglob("*.md"))}
    waiting = list(homes)
    for page in waiting:

        def linked(found: re.Match[str], page: Path = page) -> str:
            if found[1] is None:
                return found[0]
            named = Path(os.path.normpath(homes[page] / found[1]))
            there = _there(named, folder)
            if there is None:
                there = _source_page(named, folder)
                if there not in homes:
                    _write_source(named, there)
                    homes[there] = named.parent
                    waiting.append(there)
            return f"]({os.path.relpath(there, page.parent)}{found[2] or ''})"

        page.write_text(LINK.sub(linked, page.read_text("utf-8")), "utf-8")


def _home(page: Path) -> Path:
    """The folder that the links of a page begin at."""
    return ROOT if f"{page.stem.upper()}.md" in PROJECT else (DOCS / page).parent


def _there(named: Path, folder: Path) -> Path | None:
    """Where the site has a file of the repository as a page of its own."""
    if named.is_relative_to(DOCS):
        return folder / named.relative_to(DOCS)
    if named == ROOT / "README.md":
        return folder / "index.md"
    return folder / named.name.lower() if str(named.relative_to(ROOT)) in PROJECT else None


def _source_page(named: Path, folder: Path) -> Path:
    return folder / "source" / f"{named.relative_to(ROOT)}.md"


def _write_source(named: Path, page: Path) -> None:
    """Write the page that shows a file of the repository, or names the files of a folder there."""
    if named.is_dir():
        files = "\n".join(f"- `{path.name}`" for path in sorted(named.iterdir()))
        text = f"In the repository this folder has\n\n{files}"
    elif named.suffix == ".md":
        text = named.read_text("utf-8").partition("\n")[2]
    else:
        language = LANGUAGES.get(named.suffix, "text")
        text = f"````{language}\n{named.read_text('utf-8')}````"
    page.parent.mkdir(parents=True, exist_ok=True)
    title = named.relative_to(ROOT)
    page.write_text(f"---\nsearch:\n  exclude: true\n---\n\n# {title}\n\n{text}\n", "utf-8")
