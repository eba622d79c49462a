"""The table of differences, as it stands in the documentation.

`python -m client.shape.table` in `tests` writes it there.
"""

from __future__ import annotations

from client.shape import httplib
from repository import DOCS

PAGE = DOCS / "client" / "http-client.md"
BEGIN = "<!-- made by tests/client/shape/table.py from differences.toml -->\n"
END = "<!-- end -->\n"


def table() -> str:
    """The table in Markdown."""
    cases = httplib.cases()
    held = len(cases) - len(httplib.listed())
    lines = [f"Of {len(cases)} cases {held} hold. The others:", ""]
    lines += ["| what differs | why | cases of `test_httplib` |", "| --- | --- | --- |"]
    for one in httplib.differences():
        names = ", ".join(f"`{case}`" for case in one.cases)
        lines.append(f"| {one.title} | {one.reason} | {names} |")
    return "\n".join(lines) + "\n"


def filled(page: str) -> str:
    """The page with the table as it is now."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
