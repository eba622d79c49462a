"""The fair form of `transcoding`, run by nobody: numbers from a seed, for tests of reports."""

from __future__ import annotations

import functools
import math
import random

from repository import ROOT
from synthetic.records import altered, run, server
from trilane.lab import Experiment, testbed
from trilane.lab.analysis import findings
from trilane.lab.analysis.findings import Findings, Point
from trilane.lab.analysis.paired import Observed
from trilane.lab.experiment.form import Form
from trilane.lab.experiment.workload import ArmSpec
from trilane.lab.model.arm import Arm
from trilane.lab.model.lab import LabResult
from trilane.lab.model.measures import BY_NAME
from trilane.lab.model.sample import Sample

MACHINE = {"cpu": "Test CPU", "cpus_usable": 2, "kernel": "Linux 6.1.0", "pinning": "client 1"}
_FACTORS: dict[str, float] = {
    "json": 1.2,
    "protobuf": 1.1,
    "grpc": 1.0,
    "h1": 1.0,
    "h2c": 1.1,
    "h2": 1.2,
    "h3": 1.8,
    "embedded": 1.0,
    "vanguard": 2.5,
    "grpc-gateway": 4.0,
    "connect-go": 2.0,
    "grpc-go": 1.6,
    "grpc-go-http": 2.8,
}


@functools.cache
def result(blocks: int = 12) -> LabResult:
    """A `trilane.lab/1` of all arms at the points that differ."""
    experiment = Experiment.load(ROOT / "experiments" / "transcoding.toml")
    form = experiment.forms["fair"]
    return findings.result(
        Findings(
            experiment=experiment,
            form=form,
            quick=False,
            points=[
                Point(value, point, _observed(point, float(value or 0), blocks))
                for value, point in form.points()
                # 64 in flight have the arms that 8 have.
                if value != 64
            ],
            command="trilane lab run transcoding --form fair --seed 7",
            replay="trilane lab replay 1",
            started_at="2026-11-20T10:00:00Z",
            seed=7,
            machine=MACHINE,
            interrupted=False,
            skipped=[("grpc-go-h3-grpc", "grpc-go does not speak h3")],
        )
    )


def _observed(form: Form, in_flight: float, blocks: int) -> Observed:
    chance = random.Random(in_flight)
    samples = []
    for block in range(blocks):
        entries = [(arm, 0) for arm in form.arms] + [(form.arm(form.baseline), 1)]
        chance.shuffle(entries)
        for position, (arm, slot) in enumerate(entries):
            mean = 30e-6 * in_flight**0.7 * _factor(arm) * math.exp(chance.gauss(0, 0.02))
            made = run(arm.version, rate=in_flight / mean, p50=mean, cpu_us=mean * 3e5)
            made = altered(made, {"latency.service.hdr": None})
            samples.append(
                Sample(
                    arm=arm.name,
                    block=block,
                    slot=slot,
                    position=position,
                    run=made,
                    file=f"runs/{block}-{arm.name}-{slot}.json",
                    server=server(mean * 5e5),
                )
            )
    return Observed(
        question="Is 2 > 1?",
        url="http://127.0.0.1:8080",
        command="trilane lab run transcoding --form fair --seed 7",
        arms=[_arm(arm) for arm in form.arms],
        baseline=form.baseline,
        samples=samples,
        blocks=blocks,
        seed=7,
        margin=form.margin,
        duration_s=form.workload.duration_s,
        warmup_s=form.workload.warmup_s,
        started_at="2026-11-20T10:00:00Z",
        machine=MACHINE,
        server={"software": "several"},
        measures=[BY_NAME[name] for name in form.measures],
        rank=BY_NAME[form.rank],
        announced=form.announced(),
    )


def _arm(spec: ArmSpec) -> Arm:
    class Bench:
        """Names every server as its own."""

        def server_name(self, arm: ArmSpec) -> str:
            return arm.server

    return testbed.arm_of(spec, Bench())  # type: ignore[arg-type] # all that is asked of one


def _factor(arm: ArmSpec) -> float:
    parts = (arm.message or "", arm.version, arm.server)
    return math.prod(_FACTORS[part] for part in parts)
