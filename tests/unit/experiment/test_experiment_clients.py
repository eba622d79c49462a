"""The experiments about clients: in the schema, quick enough, with the gates that are promised."""

from __future__ import annotations

import pytest

from repository import ROOT
from trilane.lab import Experiment
from trilane.lab.analysis import stats
from trilane.lab.clients import contenders
from trilane.lab.experiment.form import Form
from trilane.lab.model.arm import ENGINE

FOLDER = ROOT / "experiments"
FORMS = {
    "clients-serial": ("fair", "fresh"),
    "clients-multiplexed": ("fair", "twisted", "tasks"),
    "clients-adapters": ("fair", "streaming", "serial"),
    "clients-download": ("fair",),
    "clients-upload": ("fair",),
}
EVERY = [(name, form) for name, forms in FORMS.items() for form in forms]
CPU, PER_GIB = "client_cpu_us_per_request", "client_cpu_s_per_gib"
# What issue and documentation promise: at most so many times what the other needs.
PROMISED = [
    ("clients-serial", "fair", CPU, "trilane-h1-serial", "requests-h1-serial", 0.25),
    ("clients-serial", "fair", CPU, "trilane-h1-serial", "http-client-h1-serial", 0.7),
    ("clients-multiplexed", "fair", CPU, "trilane-h2-chunks", "pycurl-h2-chunks", 0.5),
    ("clients-multiplexed", "fair", CPU, "trilane-h2-chunks", "httpx-h2-chunks", 0.15),
    (
        "clients-multiplexed",
        "fair",
        CPU,
        "trilane-h3-multiplexed",
        "niquests-h3-multiplexed",
        0.3,
    ),
    ("clients-multiplexed", "tasks", "elapsed_s", "trilane-h2", "aiohttp-h1", 1.0),
    ("clients-multiplexed", "tasks", CPU, "trilane-h2", "aiohttp-h1", 1.0),
    ("clients-multiplexed", "tasks", CPU, "trilane-h1", "aiohttp-h1", 0.8),
    ("clients-multiplexed", "fair", CPU, "trilane-h2-asyncio", "pycurl-h2-multiplexed", 0.7),
    ("clients-multiplexed", "fair", CPU, "trilane-get-all-h2", "pycurl-h2-multiplexed", 0.7),
    (
        "clients-adapters",
        "fair",
        CPU,
        "httpx2-trilane-h1-asyncio",
        "pyreqwest-h1-asyncio",
        0.69,
    ),
    ("clients-adapters", "fair", CPU, "httpx-trilane-h2-asyncio", "httpx-h2-asyncio", 0.25),
    ("clients-adapters", "fair", CPU, "httpx-trilane-h1-asyncio", "httpx-h1-asyncio", 0.15),
    (
        "clients-adapters",
        "streaming",
        CPU,
        "httpx2-trilane-h1-asyncio",
        "pyreqwest-h1-asyncio",
        0.8,
    ),
    ("clients-adapters", "serial", CPU, "requests-trilane-h1-serial", "requests-h1-serial", 0.6),
    ("clients-download", "fair", PER_GIB, "trilane-h1-serial", "curl-h1-serial", 1.1),
    ("clients-download", "fair", PER_GIB, "trilane-h2-serial", "curl-h2-serial", 1.1),
    ("clients-download", "fair", PER_GIB, "trilane-h3-serial", "pycurl-h3-serial", 1.1),
]


def form_of(name: str, form: str) -> Form:
    return Experiment.load(FOLDER / f"{name}.toml").forms[form]


def test_every_one_is_listed_here() -> None:
    assert set(FORMS) == {path.stem for path in FOLDER.glob("clients-*.toml")}
    for name, forms in FORMS.items():
        experiment = Experiment.load(FOLDER / f"{name}.toml")
        assert tuple(experiment.forms) == forms
        assert experiment.hypothesis
        assert experiment.confounders
        assert experiment.source is None


@pytest.mark.parametrize(("name", "form"), EVERY)
def test_every_client_can_do_it(name: str, form: str) -> None:
    clients = contenders.discover([ROOT / "contenders"])
    for arm in form_of(name, form).arms:
        if arm.client == ENGINE:
            assert arm.strategy == "load"
        else:
            assert clients[arm.client].lacks(arm.version, arm.strategy) is None


@pytest.mark.parametrize(("name", "form"), EVERY)
def test_the_blocks_can_separate_every_arm_from_the_baseline(name: str, form: str) -> None:
    whole = form_of(name, form)
    for each in (whole, whole.quickened()):
        assert each.stats.blocks >= stats.LEAST_BLOCKS


@pytest.mark.parametrize(("name", "form"), EVERY)
def test_quick_takes_less_than_two_minutes(name: str, form: str) -> None:
    quick = form_of(name, form).quickened()
    estimate = sum(
        # A second for each start; 1 ms of CPU per request; 3 s for a GiB, sent and received.
        quick.stats.blocks
        * (len(point.arms) + 1)
        * (
            1.0
            + 0.001 * (point.workload.count or 3000)
            + 3 * (value if isinstance(value, float) else 0.0) / (1 << 30)
        )
        for value, point in quick.points()
    )
    assert estimate <= 180, f"about {estimate:.0f} s, and less on two fast cores"


@pytest.mark.parametrize(("name", "form", "measure", "arm", "to", "most"), PROMISED)
def test_the_promises_are_gates(
    name: str, form: str, measure: str, arm: str, to: str, most: float
) -> None:
    whole = form_of(name, form)
    for each in (whole, whole.quickened()):
        gates = [(gate.measure, gate.arm, gate.to, gate.high) for gate in each.expect]
        if {arm, to} <= {one.name for one in each.arms}:
            assert (measure, arm, to, most) in gates
    assert (arm, to) in [(gate.arm, gate.to) for gate in whole.expect]


@pytest.mark.parametrize(("name", "sent"), [("clients-download", 0), ("clients-upload", 1 << 28)])
def test_large_bodies_are_streamed_by_every_arm(name: str, sent: int) -> None:
    ((_, point),) = form_of(name, "fair").points()
    assert point.workload.body is None
    assert (point.workload.file_bytes or 0) == sent
    assert point.workload.discard is not bool(sent)
