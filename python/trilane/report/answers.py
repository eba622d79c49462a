"""An answer as text: the headline, why, and how far to believe it."""

from __future__ import annotations

from rich.text import Text

from trilane.lab.analysis import verdict
from trilane.lab.model.answer import Answer, Doubt
from trilane.lab.model.comparison import Comparison
from trilane.lab.model.measures import BY_NAME
from trilane.lab.model.record import Verdict
from trilane.report import formatting, styles

MARKS: dict[Verdict, str] = {"valid": "✓", "suspect": "!", "invalid": "✗"}
"""What stands before a headline."""
_MOST_DOUBTS = 3


def headline(answer: Answer) -> Text:
    """One line: the mark, how far to believe it unless wholly, and the finding."""
    judged = answer.confidence.verdict
    return Text.assemble((f"{MARKS[judged]} ", styles.VALIDITY[judged]), (answer.line, "bold"))


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


def aside(comparison: Comparison) -> str | None:
    """Why arms may be marked worse than the comparison: by what it does not depend on."""
    rank = comparison.ranking.measure
    found: dict[str, list[str]] = {}
    for arm in comparison.arms:
        for reason in arm.validity.reasons:
            if not verdict.concerns(reason, rank, arm.load):
                found.setdefault(reason.text, []).append(arm.title)
    if not found:
        return None
    each = "; ".join(f"{formatting.listed(arms)}: {text}" for text, arms in found.items())
    return f"Arms are marked for what does not count against {BY_NAME[rank].label}: {each}."


def doubt_text(doubt: Doubt) -> str:
    """What speaks against it, and what to do."""
    return f"{doubt.text} → {doubt.advice}" if doubt.advice else doubt.text
