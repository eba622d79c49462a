"""From the runs of all blocks to one `trilane.comparison/1` (docs/comparison.schema.json)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from trilane.lab import ledger, stats, verdict
from trilane.lab.arms import Arm
from trilane.lab.measures import MEASURES, RATE, Json, Measure
from trilane.lab.stats import Comparison, Floats

SCHEMA = "trilane.comparison/1"


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one arm: where it stood in the order, and what came of it."""

    arm: str
    block: int
    slot: int
    """0, or 1 for the second run of the baseline in a block (A/A)."""
    position: int
    run: Json | None
    """The `trilane.run/1`, or None when the process left none."""
    problem: str | None = None
    """Why `run` is missing."""
    file: str | None = None
    server: Mapping[str, Any] | None = None
    """Cost of our server during this run."""

    def value(self, measure: Measure) -> float:
        """The measure in this run; NaN where unknown."""
        value = None if self.run is None else measure.read(self.run, self.server)
        return float("nan") if value is None else value

    @property
    def invalid(self) -> list[str]:
        """Why this run must not be ranked; empty when it may."""
        if self.run is None:
            return [self.problem or "the run left no result"]
        if self.run["validity"]["verdict"] != "invalid":
            return []
        return [str(reason) for reason in self.run["validity"]["reasons"]] or ["invalid run"]


@dataclass(frozen=True, slots=True)
class Race:
    """Everything that was asked and seen: the input of `compare`."""

    question: str
    url: str
    command: str
    arms: Sequence[Arm]
    baseline: str
    samples: Sequence[Sample]
    blocks: int
    seed: int
    margin: float
    duration_s: float
    warmup_s: float
    started_at: str
    machine: Mapping[str, Any]
    server: Mapping[str, Any] | None = None
    """Our own server's facts; None when the target is somebody else's."""
    absent: Sequence[tuple[Arm, str]] = field(default_factory=list)
    """Arms that the target does not serve, and why."""
    interrupted: bool = False
    order: Sequence[Sequence[str]] = field(default_factory=list)


def compare(race: Race) -> Json:
    """Judge a race."""
    table = _Table(race)
    invalid = {arm.name: table.problems(arm.name) for arm in race.arms}
    floors = {measure.name: table.floor(measure) for measure in MEASURES}
    ratios = [
        row
        for measure in MEASURES
        for row in table.family(
            measure,
            [(arm.name, race.baseline) for arm in race.arms if arm.name != race.baseline],
            floors[measure.name],
            invalid,
        )
    ]
    # Naming one winner of three arms takes every pair, not only those with the baseline.
    pairs = table.family(
        RATE,
        [
            (second.name, first.name) if second.name != race.baseline else (first.name, second.name)
            for first, second in combinations(race.arms, 2)
        ],
        floors[RATE.name],
        invalid,
    )
    arms = [_arm(race, table, arm, invalid[arm.name]) for arm in race.arms]
    result: Json = {
        "schema": SCHEMA,
        "question": race.question,
        "url": race.url,
        "command": race.command,
        "started_at": race.started_at,
        "interrupted": race.interrupted,
        "baseline": race.baseline,
        "plan": {
            "blocks": race.blocks,
            "blocks_done": table.blocks,
            "seed": race.seed,
            "order": [list(block) for block in race.order],
            "duration_s": race.duration_s,
            "warmup_s": race.warmup_s,
            "margin": race.margin,
            "in_flight": race.arms[0].in_flight,
        },
        "arms": arms,
        "absent": [
            {"name": arm.name, "version": arm.version, "reason": reason}
            for arm, reason in race.absent
        ],
        "ratios": ratios,
        "noise_floor": {
            name: {"ratio": floor.centre, "low": floor.low, "high": floor.high} if floor else None
            for name, floor in floors.items()
        },
        "ranking": {
            "measure": RATE.name,
            "winner": verdict.winner([arm.name for arm in race.arms], pairs),
            "pairs": pairs,
        },
        "ledger": ledger.build(race),
    }
    result["validity"] = verdict.validity(result)
    result["verdict"] = verdict.sentence(result)
    return result


class _Table:
    """The values of all complete blocks, by arm and slot."""

    def __init__(self, race: Race) -> None:
        self._race = race
        self._cells = {(s.arm, s.block, s.slot): s for s in race.samples}
        wanted = [(arm.name, 0) for arm in race.arms]
        if len(race.arms) > 1:
            wanted.append((race.baseline, 1))
        # An interrupted block has not met every arm with the same machine: it is left out.
        self._complete = [
            block
            for block in range(race.blocks)
            if all((name, block, slot) in self._cells for name, slot in wanted)
        ]

    @property
    def blocks(self) -> int:
        return len(self._complete)

    def samples(self, arm: str) -> list[Sample]:
        return [s for s in self._race.samples if s.arm == arm and s.block in self._complete]

    def problems(self, arm: str) -> list[str]:
        samples = self.samples(arm)
        return verdict.merged([r for sample in samples for r in sample.invalid], len(samples))

    def values(self, arm: str, measure: Measure) -> Floats:
        """One value per block; the baseline's two runs are joined by their geometric mean."""
        first = self._slot(arm, 0, measure)
        second = self._slot(arm, 1, measure)
        if np.isnan(second).all():
            return first
        return np.asarray(np.sqrt(first * second), dtype=np.float64)

    def floor(self, measure: Measure) -> stats.Interval | None:
        baseline = self._race.baseline
        return stats.noise_floor(
            self._slot(baseline, 0, measure),
            self._slot(baseline, 1, measure),
            self._race.seed,
        )

    def family(
        self,
        measure: Measure,
        pairs: Sequence[tuple[str, str]],
        floor: stats.Interval | None,
        invalid: Mapping[str, list[str]],
    ) -> list[Json]:
        """One row per (arm, other) pair, adjusted together."""
        compared = stats.compare(
            [
                stats.log_ratios(self.values(arm, measure), self.values(other, measure))
                for arm, other in pairs
            ],
            floor=floor,
            margin=self._race.margin,
            seed=self._race.seed,
            valid=[not invalid[arm] and not invalid[other] for arm, other in pairs],
        )
        return [
            {"measure": measure.name, "arm": arm, "to": other, **_row(found)}
            for (arm, other), found in zip(pairs, compared, strict=True)
        ]

    def _slot(self, arm: str, slot: int, measure: Measure) -> Floats:
        return np.array(
            [
                cell.value(measure) if (cell := self._cells.get((arm, block, slot))) else np.nan
                for block in self._complete
            ],
            dtype=np.float64,
        )


_UNKNOWN = {
    "ratio": None,
    "low": None,
    "high": None,
    "p": None,
    "p_holm": None,
    "p_tost": None,
    "finding": "undecided",
    "blocks": 0,
}


def _row(found: Comparison | None) -> Json:
    return dict(_UNKNOWN) if found is None else asdict(found)


def _arm(race: Race, table: _Table, arm: Arm, problems: list[str]) -> Json:
    samples = table.samples(arm.name)
    summary: Json = {}
    for measure in MEASURES:
        values = table.values(arm.name, measure)
        known = values[np.isfinite(values)]
        interval = stats.bootstrap(known, stats.median, race.seed)
        summary[measure.name] = {
            "median": float(np.median(known)) if len(known) else None,
            "low": interval.low if interval else None,
            "high": interval.high if interval else None,
            "unit": measure.unit,
        }
    suspect = [
        str(reason)
        for sample in samples
        if sample.run and sample.run["validity"]["verdict"] == "suspect"
        for reason in sample.run["validity"]["reasons"]
    ]
    return {
        "name": arm.name,
        "version": arm.version,
        "title": arm.title,
        "connections": arm.connections,
        "streams": arm.streams,
        "client": "trilane",
        "server": "trilane" if race.server else None,
        "strategy": "closed",
        "network": "direct",
        "runs": [sample.run for sample in samples if sample.run is not None],
        "samples": [
            {
                "block": sample.block,
                "slot": sample.slot,
                "position": sample.position,
                "file": sample.file,
                "problem": sample.problem,
                "server": dict(sample.server) if sample.server else None,
            }
            for sample in samples
        ],
        "summary": summary,
        "validity": {
            "verdict": "invalid" if problems else "suspect" if suspect else "valid",
            "reasons": problems or verdict.merged(suspect, len(samples)),
        },
        "load": verdict.bound([s for s in samples if s.run is not None]),
    }
