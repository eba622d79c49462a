"""Finding contenders, and making what they need."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.contenders.conftest import CONTENDERS
from peers.process import wait_until
from repository import ROOT
from trilane.lab.clients import contenders
from trilane.lab.clients.contenders import BadContender, ContenderFailed
from trilane.lab.programs import environments
from trilane.lab.programs.environments import EnvironmentFailed

PYTHON = sys.executable
SCRIPT = """\
# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.trilane]
# {tool}
# ///
print("hello")
"""
GOOD = 'versions = ["h1", "h2"]\n# strategies = ["serial", "chunks"]'
VARIANT = f"{GOOD}\n#\n# [tool.trilane.variants.two]"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "trilane"


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def fake_uv(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A program `uv` found before every other."""
    write(folder, "uv", "#!/bin/sh\n" + text).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))


def test_ours_are_found_and_pinned() -> None:
    assert {"http-client", "requests", "aiohttp", "httpx", "niquests", "hyper"} <= set(CONTENDERS)
    for contender in CONTENDERS.values():
        if contender.script is not None:
            for requirement in environments.metadata(contender.script)["dependencies"]:
                assert "==" in requirement, f"{contender.name}: {requirement}"


def test_a_description_becomes_a_contender(tmp_path: Path) -> None:
    write(tmp_path / "one", "contender.py", SCRIPT.format(tool=GOOD))
    write(tmp_path / "harness", "other.py", "")
    found = contenders.discover([tmp_path])
    assert list(found) == ["one"]
    assert found["one"].strategies == {"h1": ("serial",), "h2": ("serial", "chunks")}
    assert found["one"].lacks("h2", "chunks") is None
    assert found["one"].lacks("h3", "serial") == "one does not speak h3, only h1, h2"
    assert found["one"].lacks("h1", "serial", 50.0) == "one keeps no rate"
    assert found["one"].lacks("h1", "chunks") == ("one over h1 has no strategy chunks, only serial")


def test_a_variant_is_what_it_says_and_else_as_its_contender(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    fake_uv(tmp_path / "bin", monkeypatch, f'echo "$1" >> {log}\necho {PYTHON}\n')
    tool = f'title = "One"\n# note = "slow"\n# {VARIANT}\n# note = "fast"\n# versions = ["h2"]'
    write(tmp_path / "one", "contender.py", SCRIPT.format(tool=tool))
    found = contenders.discover([tmp_path])
    one, two = found["one"], found["two"]
    assert (one.note, one.versions) == ("slow", ("h1", "h2"))
    assert (two.title, two.note, two.versions) == ("One", "fast", ("h2",))
    assert two.strategies == {"h2": ("serial", "chunks")}
    # One environment, and the script is told which of them it is.
    assert two.command() == [*one.command(), "two"]
    assert log.read_text(encoding="utf-8").splitlines() == ["sync", "python"]


def test_a_variant_of_a_program_has_its_own_command(tmp_path: Path) -> None:
    text = (
        'command = ["{build}/made"]\nbuild = [["sh", "-c", "echo > {build}/made"]]\n'
        'versions = ["h1"]\nstrategies = ["serial"]\n'
        'variants.two.command = ["{build}/made", "--two"]\n'
    )
    write(tmp_path / "one", "contender.toml", text)
    found = contenders.discover([tmp_path])
    assert found["two"].command() == [*found["one"].command(), "--two"]


def test_of_two_with_one_name_the_first_counts(tmp_path: Path) -> None:
    for folder in ("yours", "ours"):
        text = SCRIPT.format(tool=f'{GOOD}\n# title = "{folder}"')
        write(tmp_path / folder / "one", "contender.py", text)
    found = contenders.discover([tmp_path / "yours", tmp_path / "ours"])
    assert found["one"].title == "yours"


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ('versions = ["h4"]\n# strategies = []', ":6: tool.trilane.versions[0]: 'h4' is not a ver"),
        ("versions = []\n# strategies = []", ":6: tool.trilane.versions: is empty: choose from"),
        ('versions = ["h1"]', ":5: tool.trilane: strategies is missing: add strategies = "),
        ('versions = ["h1"]\n# strategies = ["dance"]', ":7: tool.trilane.strategies[0]: 'dance'"),
        ('versions = ["h1"]\n# strategies = "serial"', "strategies: is a table: put its keys"),
        ('versions = ["h1"]\n# strategies.h2 = ["serial"]', "must name each of the versions"),
        (f"{GOOD}\n# speed = 3", ":8: tool.trilane.speed: unknown key"),
        (f"{GOOD}\n# title = 3", ":8: tool.trilane.title: takes text, not 3"),
        (f'{GOOD}\n# runtime = "ours"', 'runtime = "self" is all there is'),
        (f'{GOOD}\n# requires = "go"', ":8: tool.trilane.requires: takes a list, not 'go': put"),
        (f'{GOOD}\n# command = ["x"]', "command: belongs into contender.toml"),
        (f"{GOOD}\n# build = [[]]", ":8: tool.trilane.build[0]: is empty"),
        ("versions = [", ":7: is not TOML"),
        (f"{GOOD}\n# variants = 3", ":8: tool.trilane.variants: is a table: put its keys"),
        (f"{GOOD}\n# variants.two = 3", "trilane.variants.two: is a table: put its keys"),
        (f"{VARIANT}\n# speed = 3", ":10: tool.trilane.variants.two.speed: unknown key"),
        (f'{VARIANT}\n# versions = ["h4"]', ":10: tool.trilane.variants.two.versions[0]: 'h4' is"),
    ],
)
def test_a_bad_description_names_file_and_key(tmp_path: Path, tool: str, words: str) -> None:
    path = write(tmp_path / "one", "contender.py", SCRIPT.format(tool=tool))
    with pytest.raises(BadContender) as caught:
        contenders.discover([tmp_path])
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


def test_a_bad_description_of_a_program_names_file_line_and_key(tmp_path: Path) -> None:
    path = write(tmp_path / "one", "contender.toml", '\nversions = ["h1"]\nstrategies = [1]\n')
    with pytest.raises(BadContender) as caught:
        contenders.discover([tmp_path])
    assert str(caught.value) == f"{path}:3: strategies[0]: takes text, not 1"
    path.write_text('versions = ["h1"]\nstrategies = ["serial"]\n', encoding="utf-8")
    with pytest.raises(BadContender, match="command is missing: add command = "):
        contenders.discover([tmp_path])


def test_a_script_without_a_table_says_so(tmp_path: Path) -> None:
    write(tmp_path / "one", "contender.py", "print()\n")
    with pytest.raises(BadContender, match=r"no table \[tool.trilane\]"):
        contenders.discover([tmp_path])


def test_a_program_is_built_once(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    build = '[["sh", "-c", "echo x >> {build}/made"]]'
    text = f'command = ["{{build}}/made", "{{folder}}"]\nbuild = {build}\n'
    write(folder, "contender.toml", text + 'versions = ["h1"]\nstrategies = ["serial"]\n')
    contender = contenders.discover([tmp_path])["one"]
    first, second = contender.command(), contender.command()
    assert first == second
    assert Path(first[0]).read_text(encoding="utf-8") == "x\n"
    assert first[1] == str(folder)
    write(folder, "source.c", "changed")
    assert contender.command() != first


def test_of_two_that_need_a_program_one_builds_it(tmp_path: Path) -> None:
    log, go_on = tmp_path / "log", tmp_path / "go-on"
    os.mkfifo(go_on)
    build = f"echo x >> {log}; read word < {go_on}; echo > {{build}}/made"
    text = f'command = ["{{build}}/made"]\nbuild = [["sh", "-c", "{build}"]]\n'
    write(tmp_path / "one", "contender.toml", text + 'versions = ["h1"]\nstrategies = ["serial"]\n')
    contender = contenders.discover([tmp_path])["one"]

    def begun() -> int:
        return len(log.read_text().splitlines()) if log.exists() else 0

    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(contender.command) for _ in range(2)]
        wait_until(lambda: begun() == 2 or (begun() == 1 and waits_for_a_lock()), "one waits")
        builders = begun()
        for _ in range(builders):
            go_on.write_text("go on\n")
    assert both[0].result() == both[1].result()
    assert (builders, begun()) == (1, 1)


def waits_for_a_lock() -> bool:
    """Whether a thread of ours does, as the kernel tells."""
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(words[1] == "->" and str(os.getpid()) in words for words in locks)


def test_a_build_that_fails_says_what_the_builder_said(tmp_path: Path) -> None:
    text = 'command = ["x"]\nbuild = [["sh", "-c", "echo no such header >&2; exit 1"]]\n'
    write(tmp_path / "one", "contender.toml", text + 'versions = ["h1"]\nstrategies = ["serial"]')
    with pytest.raises(ContenderFailed, match=r"one cannot be built: .*: no such header"):
        contenders.discover([tmp_path])["one"].command()


def test_a_missing_program_is_the_reason_to_skip(tmp_path: Path) -> None:
    text = SCRIPT.format(tool=f'{GOOD}\n# requires = ["no-such-program"]')
    write(tmp_path / "one", "contender.py", text)
    contender = contenders.discover([tmp_path])["one"]
    assert contender.missing() == "no-such-program is not installed"
    with pytest.raises(ContenderFailed, match="one cannot run: no-such-program is not installed"):
        contender.command()


def test_an_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = write(tmp_path / "one", "contender.py", SCRIPT.format(tool=GOOD))
    log = tmp_path / "log"
    fake_uv(tmp_path / "bin", monkeypatch, f'echo "$*" >> {log}\necho {PYTHON}\n')
    assert not environments.is_made(script)
    assert environments.interpreter(script) == Path(PYTHON)
    assert environments.interpreter(script) == Path(PYTHON)
    assert environments.is_made(script)
    assert log.read_text(encoding="utf-8").splitlines() == [
        f"sync --quiet --script {script}",
        f"python find --script {script}",
    ]
    write(tmp_path / "one", "contender.py", SCRIPT.format(tool=GOOD).replace("3.11", "3.10"))
    assert not environments.is_made(script)


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ("error: No interpreter found for Python >=3.11", "one needs Python >=3.11"),
        ("error: Failed to fetch: https://x/simple/\n  dns error", "is the network there?"),
        ("  x No solution found when resolving\n", "No solution found when resolving"),
    ],
)
def test_an_environment_that_fails_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, errors: str, words: str
) -> None:
    script = write(tmp_path / "one", "contender.py", SCRIPT.format(tool=GOOD))
    (tmp_path / "errors").write_text(errors, encoding="utf-8")
    fake_uv(tmp_path / "bin", monkeypatch, f"cat {tmp_path}/errors >&2; exit 2\n")
    with pytest.raises(EnvironmentFailed) as caught:
        environments.interpreter(script)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_comes_with_trilane_runs_in_our_own_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SCRIPT.format(tool=f'{GOOD}\n# runtime = "self"')
    script = write(tmp_path / "one", "contender.py", text)
    # Where there is no uv.
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    contender = contenders.discover([tmp_path])["one"]
    assert contender.missing() is None
    assert contender.command() == [sys.executable, str(script)]
    assert {CONTENDERS[name].ours for name in ("trilane", "requests-trilane")} == {True}
    assert not CONTENDERS["requests"].ours


def test_without_uv_the_way_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "one", "contender.py", SCRIPT.format(tool=GOOD))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ContenderFailed, match="python -m pip install uv"):
        contenders.discover([tmp_path])["one"].command()


def test_pip_s_configuration_is_handed_to_uv() -> None:
    told = environments.parse_pip_config(
        ":env:.index-url='https://env/simple'\n"
        "global.cert='/etc/ca.pem'\n"
        "global.extra-index-url='https://a/simple\\nhttps://b/simple'\n"
        "global.index-url='https://global/simple'\n"
        "install.find-links='/no/such/folder https://links'\n"
        "nonsense\n"
    )
    assert told["index-url"] == "https://env/simple"
    settings = environments.uv_settings({}, told)
    assert settings["UV_DEFAULT_INDEX"] == "https://env/simple"
    assert settings["UV_INDEX"] == "https://a/simple https://b/simple"
    assert settings["UV_FIND_LINKS"] == "https://links"
    assert settings["SSL_CERT_FILE"] == "/etc/ca.pem"
    assert settings["UV_PYTHON_DOWNLOADS"] == "never"


@pytest.mark.parametrize(
    ("environ", "kept"),
    [
        ({"UV_DEFAULT_INDEX": "mine"}, "UV_DEFAULT_INDEX"),
        ({"UV_INDEX_URL": "mine"}, "UV_DEFAULT_INDEX"),
        ({"UV_INDEX": "mine"}, "UV_INDEX"),
        ({"SSL_CERT_FILE": "mine"}, "SSL_CERT_FILE"),
    ],
)
def test_what_uv_is_told_already_wins(environ: Mapping[str, str], kept: str) -> None:
    pip = {"index-url": "i", "extra-index-url": "e", "cert": "c"}
    assert kept not in environments.uv_settings(environ, pip)


def test_our_scripts_do_not_name_this_machine() -> None:
    for path in (ROOT / "contenders").glob("*/contender.*"):
        text = path.read_text(encoding="utf-8")
        assert str(ROOT) not in text
        assert os.sep + "root" + os.sep not in text
