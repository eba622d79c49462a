"""`trilane lab run` and `replay` as a user meets them: what they print, and what they leave."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lab.typed import trilane
from peers.process import MissingProgramError
from peers.running import absent
from peers.shipped import require
from trilane.lab.targets import running
from trilane.lab.targets.target_config import PLAIN

FILE = """
schema = "trilane.experiment/1"
name = "small"
title = "A small one"
question = "Which is faster?"

[forms.fair]
baseline = "sync"
rank = "elapsed_s"
measures = ["elapsed_s", "requests_per_s"]
[forms.fair.workload]
paths = ["/hello"]
count = 10
[forms.fair.stats]
blocks = 6
[[forms.fair.arms]]
name = "sync"
client = "http-client"
version = "h1"
strategy = "serial"
[[forms.fair.arms]]
name = "engine"
client = "engine"
version = "h1"
strategy = "serial"
[[forms.fair.expect]]
measure = "elapsed_s"
arm = "engine"
to = "sync"
low = 0.000001
high = 1_000_000.0

[forms.other]
baseline = "alone"
rank = "elapsed_s"
measures = ["elapsed_s"]
[forms.other.workload]
paths = ["/hello"]
count = 10
[[forms.other.arms]]
name = "alone"
client = "engine"
version = "h1"
strategy = "serial"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, str]:
    """One experiment of two blocks, run by the command."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "experiments").mkdir()
    (folder / "experiments" / "small.toml").write_text(FILE)
    done = trilane(
        *("lab", "run", "small", "--seed", "3", "--blocks", "2", "--format", "json"),
        *("--state", "state", "--report", "out.html"),
        folder=folder,
    )
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout), done.stderr


def test_a_run_tells_its_findings_and_where_they_are(made: tuple[Path, Any, str]) -> None:
    folder, result, errors = made
    assert result["points"][0]["comparison"]["plan"]["blocks_done"] == 2
    assert result["expect"][0]["met"] is True
    assert "6 runs" in errors
    assert re.search(r"block 2 of 2, about \d+ s left", errors)
    assert "<html" in (folder / "out.html").read_text()
    [kept] = [run for run in (folder / "state" / "runs").iterdir() if run.name in errors]
    assert str(kept.relative_to(folder)) in errors
    assert {"manifest.json", "samples.jsonl", "result.json", "report.html", "runs", "logs"} <= {
        path.name for path in kept.iterdir()
    }


def test_a_run_can_be_replayed_reported_and_compared(made: tuple[Path, Any, str]) -> None:
    folder, result, _ = made
    name = next((folder / "state" / "runs").iterdir()).name
    again = trilane("lab", "replay", name, "--state", "state", "--format", "json", folder=folder)
    assert again.returncode == 0, again.stderr
    replayed = json.loads(again.stdout)
    plan = result["points"][0]["comparison"]["plan"]
    assert replayed["points"][0]["comparison"]["plan"]["order"] == plan["order"]
    report = trilane("report", name, "--state", "state", "--format", "markdown", folder=folder)
    assert report.returncode == 0, report.stderr
    assert "95 % interval" in report.stdout
    others = sorted(path.name for path in (folder / "state" / "runs").iterdir())
    compared = trilane("compare", *others[:2], "--state", "state", folder=folder)
    assert compared.returncode in (0, 4), compared.stderr
    history = trilane("history", "small", "--state", "state", folder=folder)
    assert history.returncode == 0, history.stderr


def test_arms_and_requests_are_chosen_like_in_the_tool_of_the_post(
    made: tuple[Path, Any, str],
) -> None:
    folder, _, _ = made
    done = trilane(
        *("lab", "run", "small", "-t", "engine", "-n", "30", "--blocks", "1"),
        *("--state", "other", "--format", "json"),
        folder=folder,
    )
    assert done.returncode == 0, done.stderr
    (arm,) = json.loads(done.stdout)["points"][0]["comparison"]["arms"]
    assert arm["name"] == "engine"
    assert [sample["run"]["requests"]["ok"] for sample in arm["samples"]] == [30]


def test_arms_of_another_form_choose_that_form(made: tuple[Path, Any, str]) -> None:
    folder, _, _ = made
    done = trilane(
        *("lab", "run", "small", "-t", "alone", "--blocks", "1", "--state", "alone"),
        *("--format", "json"),
        folder=folder,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["experiment"]["form"] == "other"


def test_the_posts_command_runs(made: tuple[Path, Any, str]) -> None:
    folder, _, _ = made
    done = trilane(
        *("lab", "run", "strategies", "-t", "sync", "-t", "sync_threads", "-n", "4"),
        *("--blocks", "1", "--state", "post", "--format", "json"),
        folder=folder,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["experiment"]["form"] == "published"
    assert [point["value"] for point in result["points"]] == [4]
    for arm in result["points"][0]["comparison"]["arms"]:
        assert {sample["run"]["requests"]["ok"] for sample in arm["samples"]} == {4}


def test_a_breached_expectation_is_exit_code_3(made: tuple[Path, Any, str]) -> None:
    folder, _, _ = made
    (folder / "strict.toml").write_text(
        FILE.replace('name = "small"', 'name = "strict"').replace("1_000_000.0", "0.000002")
    )
    flags = ("--blocks", "2", "--state", "strict")
    done = trilane("lab", "run", "./strict.toml", *flags, folder=folder)
    assert done.returncode == 3, done.stderr
    assert "elapsed time" in done.stdout


def test_a_server_that_speaks_no_http_1_is_loaded_by_count(tmp_path: Path) -> None:
    """Nobody reads beforehand what it serves, as that is done over HTTP/1.1."""
    try:
        require("nghttpd")
    except MissingProgramError as error:
        absent(error)
    assert PLAIN not in running.find("nghttpd").origins
    fair, other = FILE.split("[forms.other]\n")
    other = '[forms.other]\nserver = "nghttpd"\n' + other.replace('"h1"', '"h2c"')
    (tmp_path / "small.toml").write_text(fair + other)
    arguments = ["--form", "other", "--blocks", "2", "--state", "state", "--format", "json"]
    done = trilane("lab", "run", "./small.toml", *arguments, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (arm,) = json.loads(done.stdout)["points"][0]["comparison"]["arms"]
    assert {sample["run"]["requests"]["ok"] for sample in arm["samples"]} == {10}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("smal",), "small"),
        (("small", "--form", "published"), "fair, other"),
        (("small", "--form", "fair", "-t", "alone"), "--form other"),
        (("small", "-t", "nobody"), "sync, engine"),
        (("small", "-t", "engin"), "did you mean engine?"),
        (("small", "--form", "fare"), "--form fare: small has no such form: did you mean fair?"),
        (("small", "-n", "0"), "-n"),
        (("small", "--blocks", "x"), "--blocks"),
        (("small", "--quick", "--publish"), "contradict"),
        (("small", "--network", "rtt=40"), "--network rtt=40: rtt=40: say a unit"),
        (("small", "--report", "/no/such/folder/x.html"), "--report"),
    ],
)
def test_wrong_usage_names_the_way_out(
    arguments: tuple[str, ...], told: str, made: tuple[Path, Any, str]
) -> None:
    folder, _, _ = made
    done = trilane("lab", "run", *arguments, folder=folder)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_client_that_is_nowhere_is_wrong_usage_before_anything_runs(
    made: tuple[Path, Any, str],
) -> None:
    folder, _, _ = made
    text = FILE.replace('name = "small"', 'name = "astray"')
    text = text.replace('client = "http-client"', 'client = "htpp-client"')
    (folder / "experiments" / "astray.toml").write_text(text)
    done = trilane("lab", "run", "astray", "--state", "astray", folder=folder)
    assert done.returncode == 2
    line = text.splitlines().index('client = "htpp-client"') + 1
    assert (
        f"experiments/astray.toml:{line}: forms.fair.arms[0].client: "
        "'htpp-client' is not a client: did you mean http-client?"
    ) in done.stderr
    assert done.stdout == ""
    assert not (folder / "astray").exists()


def test_a_replay_of_nothing_is_wrong_usage(made: tuple[Path, Any, str]) -> None:
    folder, _, _ = made
    done = trilane("lab", "replay", "no-such-run", "--state", "state", folder=folder)
    assert done.returncode == 2
    assert "no-such-run" in done.stderr
