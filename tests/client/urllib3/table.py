"""The table of what differs under urllib3, as it stands in the documentation.

`python -m client.urllib3.table` in `tests` writes it there.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from repository import DOCS

PAGE = DOCS / "client" / "http-client.md"
BEGIN = "<!-- made by tests/client/urllib3/table.py from differences.toml -->\n"
END = "<!-- end of urllib3 -->\n"
_TABLE = Path(__file__).with_name("differences.toml")


def table() -> str:
    """The table in Markdown."""
    lines = ["| what differs | why | cases of urllib3 |", "| --- | --- | --- |"]
    for row in tomllib.loads(_TABLE.read_text(encoding="utf-8"))["difference"]:
        cases = ", ".join(f"`{case.removeprefix('test/')}`" for case in row["cases"])
        lines.append(f"| {row['title']} | {row['reason']} | {cases} |")
    return "\n".join(lines) + "\n"


def filled(page: str) -> str:
    """The page with the table as it is now."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
