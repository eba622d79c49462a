"""Commands without the packages of `trilane[lab]`: one line that says what to type."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

import trilane
from repository import ROOT
from trilane import __main__ as entry
from trilane.cli import app, packages

COMMANDS = (
    ("race",),
    ("compare", "a", "b"),
    ("report",),
    ("history",),
    ("runs", "list"),
    ("runs", "rm", "a"),
    ("runs", "prune", "--keep", "1"),
    ("lab", "list"),
    ("lab", "show", "bookstore"),
    ("lab", "run", "bookstore"),
    ("lab", "replay", "a"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_without_packages_of_the_lab_a_command_says_how_to_get_them(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("msgspec", "vl_convert"):
        monkeypatch.setitem(sys.modules, name, None)
    assert app.run(command) == 1
    words = " ".join(command[: 2 if command[0] in {"lab", "runs"} else 1])
    assert capsys.readouterr().err == (
        f"trilane: error: `trilane {words}` needs msgspec, vl_convert: "
        "type: pip install 'trilane[lab]'\n"
    )


@pytest.mark.parametrize("command", [("start",), ("worker", "tcp://127.0.0.1:1")], ids=" ".join)
def test_without_dask_the_commands_of_clusters_say_how_to_get_it(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert app.run(["cluster", *command]) == 1
    assert capsys.readouterr().err == (
        f"trilane: error: `trilane cluster {command[0]}` needs distributed: "
        "type: pip install 'trilane[cluster]'\n"
    )


def test_every_package_of_the_lab_is_looked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = {re.split("[<>=]", each)[0] for each in project["optional-dependencies"]["lab"]}
    brought = packages_distributions()
    looked_for = {brought[name][0] for name in packages._MODULES}
    # uv is a program, which contenders ask for themselves.
    assert {name.lower().replace("_", "-") for name in looked_for} == extra - {"uv", "trilane[cli]"}


@pytest.mark.parametrize("arguments", [["race"], ["doctor"], ["--help"], []], ids=" ".join)
def test_without_packages_of_the_commands_one_says_how_to_get_them(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name in {"rich", "typer"} else find(name)
    )
    monkeypatch.setattr(sys, "argv", ["trilane", *arguments])
    assert entry.main() == 1
    asked = " ".join(["trilane", *arguments])
    assert capsys.readouterr().err == (
        f"trilane: error: `{asked}` needs rich, typer: type: pip install 'trilane[lab]';"
        " load, serve, gateway and network do without\n"
    )
    with pytest.raises(ValueError, match=r"^it needs rich, typer: type: pip install"):
        entry.Pages().check(ROOT / "page.html")


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_told_without_packages(
    flag: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr(sys, "argv", ["trilane", flag])
    assert entry.main() == 0
    told = f"trilane {trilane.__version__} ({trilane.revision}, {trilane.build_profile})"
    assert capfd.readouterr().out == f"{told}\n"


def test_the_extra_of_the_commands_is_what_they_need() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["dependencies"] == []
    extra = {re.split("[<>=]", each)[0] for each in project["optional-dependencies"]["cli"]}
    assert extra == set(entry._OF_COMMANDS)
