"""The documents for people: tables that are whole, names that are there."""

from __future__ import annotations

import importlib.util
import itertools
import re
from pathlib import Path

import pytest

from repository import DOCS, ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "research").rglob("*.md")])
FOLDERS = [*(ROOT / "servers").glob("*"), *(ROOT / "contenders").glob("*")]
DESCRIPTIONS = sorted(
    path
    for folder in FOLDERS
    for path in (*folder.glob("*.toml"), folder / "contender.py")
    if path.is_file()
)

# What comments cite, and how: `METHOD §2`, `DESIGN section 5`.
CITED = {"METHOD": DOCS / "method.md", "DESIGN": DOCS / "design.md"}
CITES = re.compile(r"\b(METHOD|DESIGN)(?:\.md)?(?: §| section )(\d+)")
SOURCES = sorted(
    path
    for folder in ("python/trilane", "crates", "research", "tests", "fuzz/src")
    for ending in ("py", "rs", "jinja")
    for path in (ROOT / folder).rglob(f"*.{ending}")
)


def tables(text: str) -> list[list[str]]:
    """Blocks of lines that begin as rows of a table do, outside of code."""
    prose = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)
    blocks = itertools.groupby(prose.splitlines(), key=lambda line: line.startswith("|"))
    return [list(lines) for rows, lines in blocks if rows]


def problems(table: list[str]) -> list[str]:
    if len(table) < 3 or not re.fullmatch(r"\|( *:?-+:? *\|)+", table[1].strip()):
        return [f"no head, rule and rows: {table[0]}"]
    widths = [len(re.findall(r"(?<!\\)\|", row)) for row in table]
    return [row for row, width in zip(table, widths, strict=True) if width != widths[0]]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_row_of_a_table_is_as_wide_as_its_head(path: Path) -> None:
    assert [
        row for table in tables(path.read_text(encoding="utf-8")) for row in problems(table)
    ] == []


def test_a_broken_table_is_seen() -> None:
    whole = "| a | b |\n| --- | --: |\n| 1 | 2 \\| 3 |\n"
    assert [problems(table) for table in tables(whole)] == [[]]
    assert [problems(table) for table in tables(whole + "| 1 |\n")] == [["| 1 |"]]
    assert [problems(table) for table in tables(whole + "\n| 4 | 5 |\n")][1] != []
    assert tables(f"```\n{whole}```\n") == []


@pytest.mark.parametrize("path", DESCRIPTIONS, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_that_comments_name_are_there(path: Path) -> None:
    comments = re.findall(r"#.*", path.read_text(encoding="utf-8"))
    # `[tool.trilane.NAME]` is a table of a script's own description.
    named = {
        name
        for line in comments
        for name in re.findall(r"(?<!tool\.)\btrilane(?:\.[a-z_]+)+", line)
    }
    assert [name for name in named if importlib.util.find_spec(name) is None] == []


def cites() -> dict[tuple[str, str], list[str]]:
    """Files by the document and the section that they cite."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in SOURCES:
        for document, section in CITES.findall(path.read_text(encoding="utf-8")):
            found.setdefault((document, section), []).append(str(path.relative_to(ROOT)))
    return found


def test_what_code_cites_is_there() -> None:
    there = {
        document: re.findall(r"^## (\d+)\. \S", path.read_text(encoding="utf-8"), re.MULTILINE)
        for document, path in CITED.items()
    }
    found = cites()
    assert {document for document, _ in found} == set(CITED)
    absent = {key: files for key, files in found.items() if key[1] not in there[key[0]]}
    assert absent == {}


FRONT = (ROOT / "README.md").read_text(encoding="utf-8")


def anchors(path: Path) -> set[str]:
    """What links may name of a document: its headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.*)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_front_page_is_short() -> None:
    assert len(FRONT.splitlines()) <= 150


def test_what_the_front_page_links_and_shows_is_there() -> None:
    targets = re.findall(r"\]\(([^)]+)\)|(?:src|srcset)=\"([^\"]+)\"", FRONT)
    assert len(targets) > 20
    for target in map("".join, targets):
        name, _, anchor = target.partition("#")
        assert (ROOT / name).exists(), target
        assert not anchor or anchor in anchors(ROOT / name), target


def test_ratios_of_the_front_page_are_those_of_the_goals() -> None:
    goals = (DOCS / "performance.md").read_text(encoding="utf-8")
    ratios = re.findall(r"\d\.\d\d× \(\d\.\d\d–\d\.\d\d\)", FRONT)
    assert len(ratios) == 3
    assert [ratio for ratio in ratios if f"| {ratio} |" not in goals] == []
