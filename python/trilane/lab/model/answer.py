"""What a result says in ten seconds: one model, of which every surface is a view."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from trilane.lab.model.record import Record, Text, Unit, Verdict
from trilane.lab.model.validity import ReasonCode, Validity

MOST_WORDS = 20
"""A headline has at most as many words."""


class Figure(Record, frozen=True, omit_defaults=False):
    """One of the numbers that matter."""

    label: str
    """What it is of, such as an arm or a measure."""
    measure: str
    """Its measure, by name."""
    value: float
    """The number."""
    unit: Unit
    """Unit of the value and its interval; 1 is a count or a ratio."""
    low: float | None = None
    """Lower end of its interval; null where it has none."""
    high: float | None = None
    """Upper end."""


class Doubt(Record, frozen=True):
    """Something that speaks against the conclusion, once for all arms."""

    code: ReasonCode
    """What it is, for programs."""
    verdict: Literal["suspect", "invalid"]
    """How much it weighs."""
    text: Text
    """What it is, with the arms concerned."""
    advice: str = ""
    """What to do about it; empty where nothing helps."""


class Confidence(Record, frozen=True):
    """How far the headline may be believed."""

    verdict: Verdict
    """`valid`, `suspect` or `invalid`."""
    doubts: list[Doubt]
    """Why, the worst first; empty when valid."""


class Answer(Record, frozen=True):
    """The answer to the question that was asked."""

    headline: Text
    """The finding in at most twenty words, the experiment's own question first."""
    because: list[str]
    """Up to three sentences on the cause; empty where the numbers do not carry one."""
    confidence: Confidence
    """Whether to believe it, and what to do about what speaks against it."""
    figures: list[Figure]
    """The three to five numbers that matter."""
    details: list[str] = field(default_factory=list)
    """What else was found, a sentence each; absent where nothing was."""

    @property
    def line(self) -> str:
        """The headline, and before it how far to believe it where that is not wholly.

        Whoever reads this alone reads both (METHOD §3).
        """
        judged = self.confidence.verdict
        return self.headline if judged == "valid" else f"{judged.capitalize()}. {self.headline}"

    @classmethod
    def of_sentence(cls, verdict: str, validity: Validity) -> Answer:
        """What a result of a version before has: one sentence, and the reasons against it.

        A long one is the headline as far as it may be long, and a detail as a whole.
        """
        doubts = [
            Doubt(code=each.code, verdict=each.verdict, text=each.text, advice=each.advice)
            for each in validity.reasons
        ]
        words = verdict.split()
        long = len(words) > MOST_WORDS
        return cls(
            headline=f"{' '.join(words[: MOST_WORDS - 1])} …" if long else verdict or "No verdict.",
            because=[],
            confidence=Confidence(verdict=validity.verdict, doubts=doubts),
            figures=[],
            details=[verdict] if long else [],
        )
