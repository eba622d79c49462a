"""The contender that docs/contenders.md tells to write: it runs as it stands there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lab.contenders.conversation import converse, plan
from lab.typed import trilane
from peers.running import absent
from repository import DOCS
from trilane.lab.clients import contenders
from trilane.lab.programs import environments
from trilane.lab.storage.store import cache_folder
from trilane.lab.targets.servers import Server

ADD_ONE = (DOCS / "contenders.md").read_text(encoding="utf-8").partition("## Add one")[2]
BLOCKS = dict(reversed(re.findall(r"^```(\w*)\n(.*?)^```$", ADD_ONE, re.DOTALL | re.MULTILINE)))
"""The first piece of code in each language."""


@pytest.fixture(scope="module")
def folder() -> Path:
    """A folder with the two files, where no harness lies beside them."""
    # Always the same: uv keeps an environment for each place that a script was ever at.
    made = cache_folder() / "tests" / "template"
    for name, language in (
        ("contenders/mine/contender.py", "python"),
        ("experiments/mine.toml", "toml"),
    ):
        assert f"`{name}`" in ADD_ONE
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(BLOCKS[language], encoding="utf-8")
    try:
        environments.interpreter(made / "contenders/mine/contender.py")
    except environments.EnvironmentFailed as error:
        if "is not installed" in str(error) or "could not be fetched" in str(error):
            absent(error)
        raise
    return made


def test_the_command_of_the_document_measures_it(folder: Path, tmp_path: Path) -> None:
    command = BLOCKS[""].split()
    assert command == ["trilane", "lab", "run", "mine"]
    done = trilane(
        *(*command[1:], "-n", "20", "--blocks", "1"),
        *("--state", str(tmp_path), "--format", "json"),
        folder=folder,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["skipped"] == []
    arms = {arm["name"]: arm for arm in result["points"][0]["comparison"]["arms"]}
    (sample,) = arms["mine-h1-serial"]["samples"]
    run = sample["run"]
    assert (run["requests"]["ok"], run["requests"]["failed"]) == (20, 0)
    assert run["client"]["library"] == "urllib3"
    assert run["content"]["digest"] == run["content"]["expected"]


def test_it_does_every_strategy_that_it_names(folder: Path, server: Server) -> None:
    mine = contenders.discover([folder / "contenders"])["mine"]
    command = mine.command()
    for strategy in mine.strategies["h1"]:
        said = converse(command, plan(server.https, "h1", strategy, cacert=server.cacert))
        result = said["result"]
        assert (result["ok"], result["failed"]) == (10, {}), (strategy, result)
