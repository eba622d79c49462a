"""An answer as text: the headline, why, and how far to believe it."""

from __future__ import annotations

from rich.text import Text

from trilane.lab.model.answer import Answer, Doubt
from trilane.lab.model.record import Verdict
from trilane.report import styles

MARKS: dict[Verdict, str] = {"valid": "✓", "suspect": "!", "invalid": "✗"}
"""What stands before a headline."""
_MOST_DOUBTS = 3


def headline(answer: Answer) -> Text:
    """One line: the mark, how far to believe it unless wholly, and the finding."""
    verdict = answer.confidence.verdict
    return Text.assemble((f"{MARKS[verdict]} ", styles.VALIDITY[verdict]), (answer.line, "bold"))


def text(answer: Answer) -> Text:
    """The headline, the cause, and what speaks against it with what to do."""
    lines = [headline(answer), *map(Text, answer.because)]
    doubts = answer.confidence.doubts
    lines += [
        Text.assemble(
            (f"{MARKS[doubt.verdict]} ", styles.VALIDITY[doubt.verdict]), doubt_text(doubt)
        )
        for doubt in doubts[:_MOST_DOUBTS]
    ]
    if len(doubts) > _MOST_DOUBTS:
        lines.append(Text(f"  and {len(doubts) - _MOST_DOUBTS} more, in the report", "dim"))
    return Text("\n").join(lines)


def doubt_text(doubt: Doubt) -> str:
    """What speaks against it, and what to do."""
    return f"{doubt.text} → {doubt.advice}" if doubt.advice else doubt.text
