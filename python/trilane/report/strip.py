"""The validity strip: every run of a comparison in block order, with a text alternative."""

from __future__ import annotations

from dataclasses import dataclass

from trilane.lab.analysis.paired import validity
from trilane.lab.model.comparison import Comparison, JudgedArm
from trilane.lab.model.sample import Sample
from trilane.report import formatting, view

SYMBOLS = {"valid": "", "suspect": "?", "invalid": "✗"}
_ORDER = ("invalid", "suspect", "valid")


@dataclass(frozen=True, slots=True)
class Cell:
    """One run."""

    state: str
    """valid, suspect or invalid."""
    symbol: str
    said: str
    """Where the run stood, its verdict and why."""


@dataclass(frozen=True, slots=True)
class Row:
    """All runs of one arm; each block may hold several (that of an arm that ran twice)."""

    title: str
    blocks: list[list[Cell]]


def rows(comparison: Comparison) -> list[Row]:
    """One row per arm."""
    return [_row(arm, comparison.plan.wanted) for arm in view.listed(comparison)]


def said(comparison: Comparison) -> str:
    """How many runs were valid, suspect and invalid."""
    states = [cell.state for row in rows(comparison) for block in row.blocks for cell in block]
    counts = [f"{states.count(state)} {state}" for state in reversed(_ORDER) if states.count(state)]
    return (
        f"{formatting.counted(len(states), 'run')}: {formatting.listed(counts)}"
        if states
        else "no runs"
    )


def _row(arm: JudgedArm, count: int) -> Row:
    blocks: list[list[Cell]] = [[] for _ in range(count)]
    for sample in arm.samples:
        blocks[sample.block].append(_cell(sample))
    return Row(arm.title, blocks)


def _cell(sample: Sample) -> Cell:
    judged = validity(sample)
    state, reasons = judged.verdict, [reason.text for reason in judged.reasons]
    where = f"block {sample.block + 1}, position {sample.position + 1}: {state}"
    return Cell(state, SYMBOLS[state], f"{where} ({'; '.join(reasons)})" if reasons else where)
