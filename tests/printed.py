"""The commands that README.md and docs/ print, as they stand there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from repository import DOCS, ROOT

# A line of a block is a command if it begins with one of these, or sets a variable.
_PROGRAMS = frozenset(
    {
        *("trilane", "make", "curl", "grpcurl", "printf", "oha", "pip", "python", "dask"),
        *("kubectl", "cargo", "docker", "go"),
    }
)
_SETTING = re.compile(r"[A-Z_]+=\S")
_FENCE = re.compile(r"\s*```(\S*)")
_SHELLS = frozenset({"", "sh", "bash", "console"})
_PROMPT = re.compile(r"(?:[\w-]+)?\$ ")
# Of the code within sentences what begins a run by name; the rest are names of commands and flags.
_INLINE = re.compile(r"`(trilane lab run [a-z][^`]*)`")


@dataclass(frozen=True)
class Printed:
    """A command."""

    document: str
    """README.md, or a path below docs/."""
    line: int
    text: str
    """Without its prompt and its comment; what `\\` continues is on one line."""


@cache
def commands() -> tuple[Printed, ...]:
    """All that are printed in blocks, in their order; a line with `…` is a synopsis and is none."""
    return tuple(
        Printed(document, line, text)
        for document, content in documents().items()
        for line, text in _blocks(content)
        if "…" not in text
    )


@cache
def inline() -> tuple[Printed, ...]:
    """The runs of experiments that sentences name."""
    return tuple(
        Printed(document, number, found)
        for document, content in documents().items()
        for number, line in enumerate(content.splitlines(), 1)
        for found in _INLINE.findall(line)
        if "…" not in found
    )


@cache
def documents() -> dict[str, str]:
    """The text of each document by its name."""
    paths = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    return {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in paths}


def _blocks(content: str) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    block: list[tuple[int, str]] | None = None
    kind = ""
    for number, line in enumerate(content.splitlines(), 1):
        if fence := _FENCE.match(line):
            if block is None:
                block, kind = [], fence[1]
            else:
                found += _commands(block) if kind in _SHELLS else []
                block = None
        elif block is not None:
            block.append((number, line))
    return found


def _commands(block: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The commands of a block; where some have a prompt, what has none is what they print."""
    joined: list[tuple[int, str]] = []
    for number, line in block:
        if joined and joined[-1][1].endswith(("\\", "|")):
            begun, text = joined[-1]
            joined[-1] = begun, " ".join([text.removesuffix("\\").rstrip(), line.strip()])
        else:
            joined.append((number, line))
    prompted = [(number, line) for number, line in joined if _PROMPT.match(line)]
    return [
        (number, text)
        for number, line in prompted or joined
        if _is_command(text := _bare(_PROMPT.sub("", line, count=1)))
    ]


def _bare(line: str) -> str:
    """A line without the comment behind it; a `#` between quotes begins none."""
    for found in re.finditer(r"\s+#(?:\s|$)", line):
        before = line[: found.start()]
        if before.count("'") % 2 == 0 and before.count('"') % 2 == 0:
            return before.strip()
    return line.strip()


def _is_command(line: str) -> bool:
    word = line.split(" ", 1)[0].rpartition("/")[2]
    return word in _PROGRAMS or bool(_SETTING.match(line))
