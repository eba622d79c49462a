"""The examples do what examples/README.md says: its commands are typed, their output is compared.

A section is one bash, to which each line behind a `$` is typed as it stands there, but for ports
and for what `SHORTENED` and `LESS` make of it. What stands below it has to come, in that order.
Numbers of a measurement may be others, and so may what a busy machine makes of its validity.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from peers.process import free_port
from peers.running import absent
from repository import ROOT
from trilane.lab.processes.launch import find_program
from trilane.lab.programs import environments

EXAMPLES = ROOT / "examples"
README = (EXAMPLES / "README.md").read_text(encoding="utf-8")
CLIENT = EXAMPLES / "own_client"
BASH = find_program("bash") or "bash"
NEEDED = ("bash", "curl", "git")

PORTS = ("8080", "8443", "8000")
SHORTENED = {
    # By number, so that a machine that stands still for seconds sends them all the same.
    r"-R 500 -d 10s": "-R 500 -n 1500",
    r"-R 200 -d 10s": "-R 200 -n 200",
    r"-R 50 -d 10s": "-R 50 -n 100",
    r"-R 20 -d 60s": "-R 20 -n 20",
    r"-n 1000\b": "-n 100",
    r"-d 10s --warmup": "-d 2s --warmup",
    # Limits only end what hangs.
    r"trilane load ": "trilane load --connect-timeout 250s --timeout 250s ",
    r"Timeouts\(.*?\)": "Timeouts(connect=250, read=250)",
    r"timeout=(\(5, 30\)|30\b)": "timeout=250",
}
"""Regular expressions, and what stands for their matches: in commands, and in the examples."""
LESS = {
    r"trilane serve\b": "trilane serve -t 1 --port 8080 --tls-port 8443",
    r"trilane ab (.*) --until-decided": (
        r"python $QUICK ab \1 --blocks 1 -d 100ms --warmup 0s --no-pin"
    ),
    r"trilane lab run (.*)": r"python $QUICK lab run \1 --blocks 1",
    r"(.* run kept .*)": r"\1 -n 5",
    # How quick this machine is decides nothing.
    r"(gate\.sh .*/books)": r"\1 100s",
}
"""The same in commands alone."""
READY = re.compile(r"^(ready: |.*(listens|running) on )", re.MULTILINE)
"""What a server says once it listens."""

# Of `trilane ab` and `trilane lab run` one block is enough here, and a page without drawings.
QUICK = """\
import sys
import vl_convert
from trilane import cli
from trilane.lab import ab
ab.LEAST_BLOCKS = 1
vl_convert.vegalite_to_svg = lambda *_, **__: '<svg viewBox="0 0 1 1"></svg>'
sys.argv[0] = "trilane"
sys.exit(cli.run(sys.argv[1:]))
"""


@dataclass
class Typed:
    """A command, and the lines that the README shows below it."""

    text: str
    shown: list[str] = field(default_factory=list)


def _sections() -> dict[str, list[Typed]]:
    """The commands of each section of the README, by the folder that its heading begins with."""
    found: dict[str, list[Typed]] = {}
    for section in re.split(r"^## ", README, flags=re.MULTILINE)[1:]:
        typed = found.setdefault(section.partition(":")[0], [])
        for block in re.findall(r"^```console\n(.*?)^```$", section, re.DOTALL | re.MULTILINE):
            for line in re.sub(r"\\\n +", "", block).splitlines():
                if line.startswith("$ "):
                    typed.append(Typed(line.removeprefix("$ ")))
                elif line not in {"", "…"}:
                    typed[-1].shown.append(line)
    return found


SECTIONS = _sections()


class Shell:
    """A bash in a copy of the examples, with a state folder and ports of its own."""

    def __init__(self, folder: Path) -> None:
        self._state = folder / "state"
        self._ports = {port: str(free_port()) for port in PORTS}
        copy = folder / "examples"
        shutil.copytree(EXAMPLES, copy, ignore=shutil.ignore_patterns(CLIENT.name, "__pycache__"))
        for path in copy.rglob("*.*"):
            if path.is_file():
                path.write_text(self.here(path.read_text(encoding="utf-8")), encoding="utf-8")
        # uv keeps an environment for each place that a script was ever at.
        (copy / CLIENT.name).symlink_to(CLIENT)
        quick = folder / "quick.py"
        quick.write_text(QUICK, encoding="utf-8")
        who = {f"GIT_{role}_NAME": "A" for role in ("AUTHOR", "COMMITTER")}
        who |= {f"GIT_{role}_EMAIL": "a@example.org" for role in ("AUTHOR", "COMMITTER")}
        self._bash = subprocess.Popen(
            [BASH, "--noprofile", "--norc"],
            cwd=folder,
            env={
                **os.environ,
                **who,
                "GIT_CONFIG_GLOBAL": os.devnull,
                "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
                "XDG_STATE_HOME": str(self._state),
                "QUICK": str(quick),
                "COLUMNS": "100",
                "NO_COLOR": "1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )

    def here(self, text: str) -> str:
        """What stands in an example, with the times and ports of this shell."""
        for pattern, less in SHORTENED.items():
            text = re.sub(pattern, less, text)
        text = text.replace("~/.local/state", str(self._state))
        return re.sub(rf"\b({'|'.join(PORTS)})\b", lambda port: self._ports[port[1]], text)

    def types(self, command: str) -> str:
        """Type it; what is printed until it has ended, or says as a server where it listens."""
        stays = command.endswith("&")
        for pattern, less in LESS.items():
            command = re.sub(pattern, less, command)
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        # The next command still finds its exit code in `$?`.
        end = "\x1e"
        self._bash.stdin.write(
            f"{{ {self.here(command)}\n}} < /dev/null; code=$?; echo {end}; (exit $code)\n"
        )
        self._bash.stdin.flush()
        said, ended = "", False
        while not ended or (stays and not READY.search(said)):
            line = self._bash.stdout.readline()
            assert line, f"bash has ended:\n{said}"
            ended |= end in line
            said += line.replace(f"{end}\n", "")
        return said

    def ends(self) -> None:
        """End it, and every server that it has started."""
        os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.communicate()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    for name in NEEDED:
        if find_program(name) is None:
            absent(f"{name} is not installed on this machine")
    made = Shell(tmp_path)
    yield made
    made.ends()


MEASURES = re.compile(r"trilane (load|ab|lab run) |\.sh ")
COMPARES = re.compile(r"trilane (ab|lab run) ")
UNIT = r"(?:[ ]?(?:µs|ms|s|B|KiB|MiB|%)(?!\w))?"
TOKEN = re.compile(
    rf"""
    (?P<kept>^[ ]{{2}}\d{{3}}(?=[ ]+\d+$) | 0(?=[ ](?:failed|responses)))
    | (?P<space>[ ]+)
    | (?P<rule>─+)
    | (?P<commit>\b[0-9a-f]{{10}}\b)
    | (?P<met>:[ ]met,.*)
    | (?P<ratio>[▲▼=?][ ][\d.,]+×(?:[ ]\([\d.–]+\))?)
    | (?P<number>(?<!\w)[+-]?\d[\d.,–]*{UNIT})
    | (?P<most>\bp99(?=.*;[ ]valid$))
    | (?P<mark>^[✓!](?=[ ].*;[ ]valid$))
    | (?P<validity>\bvalid$)
    | (?P<text>.)
    """,
    re.VERBOSE,
)
"""Of what a measurement prints: a status code and that nothing has failed are kept."""
LOOSE = {
    "space": r"[ ]*",
    "rule": "─+",
    "commit": "[0-9a-f]{10}",
    "met": "",
    "ratio": "",
    "number": rf"(?:[+-]?[\d.,–]+{UNIT}|–|not known)",
    "most": "(?:p99|max)",
    "mark": "[✓!]",
    "validity": r"(?:[\w-]+;[ ])?(?:valid|suspect)",
}
# What this machine has spoilt has another headline, and is no result.
SPOILT = re.compile(r"No result: .*(?:left late|were reached|stood still)")


def _pattern(line: str, *, measured: bool) -> str:
    """What a line has to match from its beginning."""
    if not measured:
        return rf"^{re.escape(line)}"
    tokens = TOKEN.finditer(line)
    return "^" + "".join(LOOSE.get(str(token.lastgroup), re.escape(token[0])) for token in tokens)


def _missing(typed: Typed, said: str, *, spoilt: bool) -> str | None:
    """The first line of the README that was not printed below that command."""
    shown = typed.shown
    if COMPARES.search(typed.text):
        # One block tells nothing, so the answer is another one.
        headline = next(index for index, line in enumerate(shown) if line.startswith("closed "))
        shown = shown[headline + 1 :]
    at = 0
    for line in shown:
        if spoilt and (line.endswith("; valid") or (typed.text == "echo $?" and line == "0")):
            continue
        pattern = _pattern(line, measured=bool(MEASURES.search(typed.text)))
        found = re.compile(pattern, re.MULTILINE).search(said, at)
        if found is None:
            return line
        at = found.end()
    return None


@pytest.mark.parametrize("name", SECTIONS)
def test_an_example_does_what_the_readme_says(name: str, shell: Shell) -> None:
    if name == CLIENT.name:
        try:
            environments.interpreter(CLIENT / "contenders" / "urlopen" / "contender.py")
        except environments.EnvironmentFailed as error:
            absent(error)
    printed, spoilt = "", False
    for typed in SECTIONS[name]:
        said = shell.types(typed.text)
        printed += f"$ {typed.text}\n{said}"
        spoilt |= bool(SPOILT.search(said))
        shown = [shell.here(line) for line in typed.shown]
        missing = _missing(replace(typed, shown=shown), said, spoilt=spoilt)
        assert missing is None, f"not printed: {missing}\n{printed}"
        # Of a program, and not of a server whose client has gone away.
        assert "Traceback" not in said, printed


def test_every_example_is_in_the_table_and_is_typed() -> None:
    rows = re.findall(r"^\| \[`(\S+?)/?`\]\((\S+?)/?\) \|", README, flags=re.MULTILINE)
    assert all(name == target for name, target in rows)
    there = {path.name for path in EXAMPLES.iterdir() if path.name != "README.md"}
    assert {name for name, _ in rows} == there
    # Of these two are test_notebook.py and e2e/test_scenario.py.
    assert set(SECTIONS) == there - {"experiment.ipynb", "visit.toml"}
    assert all(any(typed.shown for typed in section) for section in SECTIONS.values())
