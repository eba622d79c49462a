"""Every command that README.md and docs/ print does what it says there: it is typed as printed.

What is mapped is in `MAPPED` and `ADDED`: hosts, ports, files of the reader's, and how long and how
much. Races, experiments and comparisons of revisions are made whole where README prints them; in
docs/ they are planned, up to the first run, and so are in `make test` all experiments. What cannot
be typed here is in `ELSEWHERE`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

import printed
from lab.typed import Done, planned, trilane
from others import others
from peers import chat, embedded, grpcurl, networks
from peers.authority import Leaf
from peers.process import MissingProgramError, Process, free_port
from peers.running import absent
from printed import Printed
from repository import ROOT, native
from synthetic import folders
from trilane.lab import ab
from trilane.lab.model.revision import MeasuredRevision
from trilane.lab.processes.launch import find_program

LIMIT_S = 300
BASH, GIT = (find_program(name) or name for name in ("bash", "git"))

ELSEWHERE = {
    "make test": "these tests are part of it",
    "make race": "it builds in release; `trilane race` is typed below",
    ".venv/bin/python -m pytest tests/conformance": "those are tests of this suite",
    "cargo test -p trilane-engine -p trilane-client conformance": "as above",
    "PYTHONPATH=tests .venv/bin/python -m conformance": "tests/conformance/test_document.py",
    "make research ARGS='ab 100'": "research/test_research.py has fewer comparisons",
    "trilane lab run mine": "tests/lab/contenders/test_template.py runs what stands beside it",
    "pip install 'trilane[cluster]'": "a package index; tests/lab/test_packaging.py installs",
    "dask scheduler": "Dask's own",
    "dask worker tcp://scheduler:8786 --nthreads 16 --name client-1 --resources client=1": (
        "Dask's own"
    ),
    "dask ssh --remote-python /opt/venv/bin/python 10.0.0.1 10.0.0.2 10.0.0.3": "three machines",
    "kubectl port-forward service/load-scheduler 8786 &": "a cluster of Kubernetes",
    "oha -z 10s --no-tui --output-format json http://127.0.0.1:8080/ > oha.json": (
        "oha is not needed for the tests: its file is one of tests/unit/generators"
    ),
    "trilane gateway --upstream grpc+unix:///run/shop.sock": (
        "tests/lab/servers has upstreams on Unix sockets"
    ),
    "trilane serve   --upstream grpc://127.0.0.1:50051": (
        "the upstream here has the services of the embedded server"
    ),
    "trilane load --proxy-protocol v2 --proxy-source 10.0.0.0/24 -c 200 -d 30s "
    "https://backend.example/": "tests/e2e/test_proxy_protocol.py has servers that understand it",
    "trilane load --live -R 5k -d 5m --h2 -c 8 -m 100 https://api.example/": (
        "tests/e2e/test_live.py has a terminal"
    ),
    "trilane network run rtt=40ms --port 8443 --server 'your server' "
    "--client 'trilane race https://127.0.0.1:8443/'": "a server of the reader's",
    "trilane network check rtt=20ms,rate=1mbit": "tests/e2e/test_network.py types others",
    "python -m websockets ws://127.0.0.1:8080/v1/books:lookUp": "it waits for somebody who types",
    "curl -N -H 'grpc-timeout: 10S' "
    '"http://127.0.0.1:8080/v1/shelves/3/books:watch?follow=true"': "it follows for ten seconds",
}
"""What is not typed here, and why; a test says when one of them is printed no more."""

LENGTHS = ("100ms", "2s", "40s")
"""How long a load is: the next where no response came in time, as on a machine that is busy."""

MAPPED = {
    # Servers.
    r"https://your\.server/path": "{https}/hello",
    r"https://api\.example/books https://auth\.example/session": "{https}/hello {other}/hello",
    r"'https://staging\.example/orders": "'{http}/echo",
    r"https://(api|staging)\.example": "{https}",
    r"https://llm\.example/v1/chat/completions": "{events}",
    r"wss://chat\.example/echo": "{wss}/echo",
    r"wss://feed\.example/": "{chat}",
    r"http://service\.namespace/": "{http}/",
    r"https://localhost/": "{https}/",
    r"https?://(localhost|127\.0\.0\.1):8443": "{https}",
    r"http://127\.0\.0\.1:8080": "{http}",
    r"127\.0\.0\.1:8080": "{plain}",
    r"localhost:8443": "{secure}",
    r"--har-host api\.example --connect-to staging\.example:443": (
        "--har-host localhost --connect-to {secure}"
    ),
    r"grpc://(127\.0\.0\.1|10\.0\.0\.\d):50051": "grpc://{plain}",
    r"grpcs://api\.example:443 --service shop\.v1\.Orders": (
        "grpc://{plain} --service trilane.library.v1.Library"
    ),
    r"--workers 4": "--workers 2",
    r"t(?:cp|ls)://(127\.0\.0\.1|10\.0\.0\.1):8786": "{scheduler}",
    r" --port 8080( --tls-port 8443)?": "",
    r"10\.0\.0\.1 --workers 0": "127.0.0.1 --workers 0",
    # What is at the reader's: processes, programs, runs.
    r"20261127-101500-race": "20261120-100002-race",
    r"\$\(pidof nginx\)": "{pid}",
    r"shop/v1/orders\.proto": str(ROOT / "proto/trilane/library/v1/library.proto"),
    r"--build 'cargo build --release'": "--build make",
    r"\./target/release/app": "./app",
    r"^grpcurl": "{grpcurl}",
    r"^CA=~/\.local/state/trilane/ca\.pem$": "test -f {ca}",
    r"\$CA": "{ca}",
    r"^\.venv/bin/": "",
    # How long and how much.
    r"-c 10 -m 100 -d 60s": "-c 10 -m 2 -d 500ms",
    r"-d (?!70s)(\d+s|\d+m)\b": f"-d {LENGTHS[0]}",
    # No rate holds this, which few runs show.
    r"--search 'p99<10ms,": "-R 200 --search 'p99<1us,",
    r"-n 1000$": "-n 3",
    r"-R \d+[km]\b": "-R 200",
    r"-c (\d{3,}|\dk)\b": "-c 20",
    r"-m 100\b": "-m 2",
    r"--state \.trilane": "--state state/trilane",
    r"--stages '[^']*'": "--stages '100ms:200,200ms:0'",
    r"--stages-in-flight '[^']*'": "--stages-in-flight '100ms:10,200ms:0'",
    # How long a stream takes is the machine's.
    r"--messages 100\b": "--messages 10 -n 64",
    r"--ws-messages 1k": "--ws-messages 10",
}
"""Regular expressions, one after the other, and what is typed for each match."""

ADDED = {
    r"trilane load (?!.*(--show|--format))": "--format json",
    r"trilane load (?!.*(-d|-n|--stages|--stages-in-flight) |.*--show)": f"-d {LENGTHS[0]}",
    r"trilane load (?!.*(-n|--stages|--stages-in-flight) |.*--show)": "--warmup 0s",
    r"trilane load .*--har-host": "-k",
    r"trilane race ": "-d 100ms --warmup 0s",
    r"trilane race (?!.*--until-decided)": "--blocks 1",
    r"trilane lab run (?!.*-n )": "-n 3",
    r"trilane lab run ": "--blocks 1",
    r"trilane ab ": "--blocks 1",
    r"trilane ab .*--serve": "-d 100ms --warmup 0s --no-pin",
    r"trilane ab .*--(client|command)": "--repeat 1 --no-pin",
    r"trilane (serve|gateway)": "--port 0 --tls-port 0",
    r"trilane cluster start": "--port 0",
    r"trilane cluster worker": "--name worker-$$",
}
"""What is typed behind a command, by a regular expression of how it begins."""

EXITS = {
    'grpcurl -plaintext -d \'{"name":"shelves/3/books/1"} {"name":"shelves/9/books/999"}\' '
    "127.0.0.1:8080 trilane.library.v1.Library/LookUpBooks": 69,
}
"""Commands that end with an error, as they are meant to: 69 is grpcurl's for NOT_FOUND."""

STAYS = re.compile(r"trilane +(serve|gateway|cluster (start|worker)) ")
"""Commands that serve until they are ended."""
READY = re.compile(r"^(ready: |scheduler at |worker \S+ offers )", re.MULTILINE)

PLANNED = re.compile(r"trilane (race|lab run|ab) ")
EXPERIMENTS = re.compile(r"trilane lab run ")
"""Their clients are programs of others: those of README, too, are planned, and made apart."""
HERE = re.compile(r"trilane (ab|compare|doctor|history|lab (list|show)|report|runs) ?")
"""What needs no process of its own."""
NETWORKS = re.compile(r"--network|^trilane network ")
JUDGES = re.compile(r"--fail-if|--budget|--search")

# What the machine has to answer for, and not the command: the rest of what makes a run invalid.
OF_THE_MACHINE = frozenset(
    {
        *("late", "queued", "unsent", "worker_busy", "datagrams_dropped", "steal", "others_busy"),
        *("stood_still", "few_connections", "cold_start", "drift", "few_for_p99"),
    }
)

APP = """\
#!{python} -IS
import sys

def serve(port):
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        protocol_version, wbufsize = "HTTP/1.1", 65536

        def do_GET(self):
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_):
            pass

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()

if "--port" in sys.argv:
    serve(int(sys.argv[sys.argv.index("--port") + 1]))
"""


class Events(BaseHTTPRequestHandler):
    """Answers any request with three events."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for _ in range(3):
            self.wfile.write(b'data: {"choices": []}\n\n')

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Terminal:
    """Where commands are typed: a folder with what they name, servers, and a state of its own."""

    def __init__(self, folder: Path, places: dict[str, str]) -> None:
        self.folder = folder
        self.places = places
        self.staying: list[Process] = []
        self.env = {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "XDG_STATE_HOME": str(folder / "state"),
            "SSL_CERT_FILE": places["ca"],
            "NO_COLOR": "1",
            "API_TOKEN": "token",
        }

    def mapped(self, text: str) -> str:
        """The command as it is typed here."""
        text = text.removesuffix("&").strip()
        if text.startswith("trilane network run"):
            # Its ends have ports and addresses of their own.
            return text
        for pattern, here in MAPPED.items():
            text = re.sub(pattern, self._placed(here).replace("\\", r"\\"), text)
        more = [words for pattern, words in ADDED.items() if re.match(pattern, f"{text} ")]
        return " ".join([text, *more])

    def _placed(self, here: str) -> str:
        for name, value in self.places.items():
            here = here.replace(f"{{{name}}}", value)
        return here

    def types(self, command: Printed) -> str | None:
        """Type it; what is wrong with what came of it."""
        mapped, began = self.mapped(command.text), time.monotonic()
        if STAYS.match(f"{mapped} "):
            self._stays(mapped, READY)
            return None
        if command.text.endswith("&"):
            # A load, which is told every second.
            self._stays(f"{mapped} --ndjson /dev/stderr", re.compile("{"))
            return None
        for length in LENGTHS:
            text = mapped.replace(f"-d {LENGTHS[0]}", f"-d {length}")
            done = self._done(text)
            if "nothing_ok" not in _reasons(text, done, self.folder):
                break
        # Shown where the test fails.
        print(f"{time.monotonic() - began:5.1f} s  {text}")
        meant = EXITS.get(command.text, 0)
        problem = None if meant and done.returncode == meant else _problem(text, done, self.folder)
        place = f"{command.document}:{command.line}"
        return problem and f"{place}: {text}\n{problem}\n{done.stdout}{done.stderr}"

    def _done(self, text: str) -> Done:
        if HERE.match(text):
            return trilane(*shlex.split(text)[1:], folder=self.folder, **self.env)
        done = subprocess.run(
            [BASH, "-c", text],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def _stays(self, text: str, ready: re.Pattern[str]) -> None:
        """Start what goes on while the next ones are typed; it is `ready` when it has said so."""
        name = f"staying-{len(self.staying)}"
        log = self.folder / f"{name}.log"
        process = Process(
            [BASH, "-c", f"exec {text}"],
            self.folder,
            ready=lambda: bool(ready.search(log.read_text())),
            name=name,
            env=self.env,
        )
        self.staying.append(process)
        if found := re.search(r"t(?:cp|ls)://[\d.]+:\d+", log.read_text()):
            self.places["scheduler"] = found[0]

    def ends(self) -> None:
        for process in reversed(self.staying):
            process.stop()


def _problem(text: str, done: Done, folder: Path) -> str | None:
    if "Traceback" in done.stderr:
        return "a traceback"
    if done.returncode == 0 or (done.returncode == 3 and JUDGES.search(text)):
        return None
    # Runs as short as these are invalid now and then where the machine is busy.
    if done.returncode == 4 and text.startswith("trilane load"):
        reasons = _reasons(text, done, folder) - OF_THE_MACHINE
        return f"it is invalid: {reasons}" if reasons else None
    if done.returncode == 4 and re.match(r"trilane (race|lab run|ab|compare)", text):
        return None
    return f"exit code {done.returncode}"


def _reasons(text: str, done: Done, folder: Path) -> set[str]:
    """What makes a load invalid, by code."""
    if done.returncode != 4 or not text.startswith("trilane load"):
        return set()
    written = re.search(r" -o (\S+)", text)
    result = (folder / written[1]).read_text() if written else done.stdout
    told = json.loads(result).get("validity", {"reasons": []})
    return {row["code"] for row in told["reasons"]}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory, leaf: Leaf) -> Iterator[dict[str, str]]:
    """Where the servers are, by the names that `MAPPED` has for them."""
    folder = tmp_path_factory.mktemp("places")
    with ExitStack() as stack:
        server = embedded.start(native(), folder)
        stack.callback(server.stop)
        talks = stack.enter_context(chat.serving(folder, leaf))
        events = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Events))
        thread = threading.Thread(target=events.serve_forever)
        thread.start()
        stack.callback(thread.join)
        stack.callback(events.shutdown)
        http, https = server.bases["h1"], server.bases["h2"]
        yield {
            "http": http,
            "https": https,
            "other": https.replace("localhost", "127.0.0.1"),
            "wss": f"wss://{urlsplit(https).netloc}",
            "plain": urlsplit(http).netloc,
            "secure": urlsplit(https).netloc,
            "chat": f"ws://127.0.0.1:{talks.plain}/ticks",
            "events": f"http://127.0.0.1:{events.server_address[1]}/",
            "ca": str(server.ca),
            "pid": str(server.process.pid),
        }


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of somebody who has measured before."""
    # The history of a branch names the folder of its repository.
    folder = tmp_path_factory.mktemp("measured") / "reader"
    _make_runs(folder)
    return folder


@pytest.fixture
def terminal(
    places: dict[str, str],
    measured: Path,
    tmp_path: Path,
    document: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Terminal]:
    """In a folder with everything that the commands name; it is a repository of git's as well."""
    # So few would decide nothing, and are all that is to be seen here.
    monkeypatch.setattr(ab, "LEAST_BLOCKS", 1)
    more = {"port": str(free_port())}
    if any(command.text.startswith("grpcurl") for command in _typed()[document]):
        try:
            more["grpcurl"] = grpcurl.program()
        except MissingProgramError as error:
            absent(error)
    folder = tmp_path / measured.name
    shutil.copytree(measured, folder, symlinks=True)
    _write_files(folder)
    made = Terminal(folder, {**places, **more})
    # What is set beside oha.json; a document that says how it is made makes it anew.
    assert (
        made.types(Printed("", 0, f"trilane load -n 200 -o ours.json {places['http']}/hello"))
        is None
    )
    yield made
    made.ends()


def _write_files(folder: Path) -> None:
    visit = {"request": {"method": "GET", "url": "https://localhost/hello", "headers": []}}
    texts = {
        "calls.jsonl": '{"url": "/hello"}\n',
        "users.csv": "name\nAda\n",
        "visit.har": json.dumps({"log": {"entries": [visit]}}),
        "shop.toml": 'name = "shop"\n[[steps]]\nname = "look"\nurl = "/books"\n',
        "chat.json": "{}",
        "fields": "authorization: Bearer token\n",
        "get.bin": "\0\0\0\0\x14\n\x12shelves/3/books/90",
        "shop.yaml": "type: google.api.Service\nhttp:\n  rules:\n"
        "  - selector: trilane.library.v1.Library.GetBook\n    get: /v2/{name=shelves/*/books/*}\n",
        "app": APP.replace("{python}", sys.executable),
        "Makefile": "all:\n\tchmod +x app && cp app client\n",
        ".gitignore": "/state\n/client\n",
        # What lies in the current folder is nobody's module.
        "typing.py": "raise SystemExit('a module of the current folder was imported')\n",
        "oha.json": (ROOT / "tests/unit/generators/files/oha.json").read_text(),
        "hello.toml": _saved("README.md"),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "examples").symlink_to(ROOT / "examples")
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for words in (
        ("init", "--quiet", "--initial-branch", "main"),
        ("add", "app", "Makefile", ".gitignore"),
        ("commit", "--quiet", "--message", "Serve"),
    ):
        subprocess.run([GIT, *who, *words], cwd=folder, check=True, timeout=LIMIT_S)


def _make_runs(folder: Path) -> None:
    """What a reader has measured before: races, an experiment, and commits of a branch."""
    state = folder / "state" / "trilane"
    factors = {"h1": 1.0, "h2": 1.5}
    for index, name in enumerate(("A", "B", "main", "branch")):
        stamp = f"20261120-10000{index}"
        made = folders.race(state, stamp, factors, histogram=True)
        (folder / name).symlink_to(made.relative_to(folder))
    folders.lab(state, "20261120-100010", factors)
    for number in range(2):
        head = MeasuredRevision(
            arm="h2",
            repository=folder.name,
            commit=f"{number}" * 40,
            subject="Serve",
            command="./app",
            branch="main",
        )
        folders.lab(
            state,
            f"20261120-10002{number}",
            factors,
            experiment="ab",
            form="revisions",
            revisions=[replace(head, arm="h1", commit="a" * 40, branch=None), head],
        )


def test_what_is_not_typed_here_is_still_printed() -> None:
    there = {command.text for command in printed.commands()}
    assert set(ELSEWHERE) - there == set()


@cache
def _typed() -> dict[str, list[Printed]]:
    """What is typed here of each document; what one before it has is not typed again."""
    found: dict[str, list[Printed]] = {}
    first = dict.fromkeys(ELSEWHERE, "")
    for command in printed.commands():
        if first.setdefault(command.text, command.document) == command.document:
            found.setdefault(command.document, []).append(command)
    return found


# All of a README's commands take half a minute.
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("document", _typed())
def test_the_commands_of_a_document_are_typed(document: str, terminal: Terminal) -> None:
    problems, untyped = [], []
    only_planned = EXPERIMENTS if document == "README.md" else PLANNED
    for command in _typed()[document]:
        if only_planned.match(f"{command.text} "):
            problems.append(_planned(command, terminal))
        elif NETWORKS.search(command.text) and (reason := networks.refused()) is not None:
            untyped.append(f"{command.text}: {reason}")
        else:
            problems.append(terminal.types(command))
    assert "\n\n".join(filter(None, problems)) == ""
    if untyped:
        absent("\n".join(untyped))


@others
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("document", ["README.md", "docs/experiments/README.md"])
def test_experiments_with_programs_of_others_are_made(document: str, terminal: Terminal) -> None:
    made = [command for command in _typed()[document] if EXPERIMENTS.match(command.text)]
    assert len(made) >= 2
    problems = [terminal.types(command) for command in made]
    assert "\n\n".join(filter(None, problems)) == ""


def _planned(command: Printed, terminal: Terminal) -> str | None:
    """Type a race or an experiment up to its first run; what is wrong with it."""
    words = shlex.split(terminal.mapped(command.text))[1:]
    variables = {name: terminal.env[name] for name in ("PATH", "XDG_STATE_HOME")}
    try:
        planned(*words, folder=terminal.folder, **variables)
    except AssertionError as error:
        return f"{command.document}:{command.line}: {command.text}\n{error}"
    return None


def test_experiments_that_sentences_name_are_planned(
    places: dict[str, str], tmp_path: Path
) -> None:
    terminal = Terminal(tmp_path, places)
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "hello.toml").write_text(_saved("docs/experiments.md"))
    (tmp_path / "hello.toml").write_text(_saved("README.md"))
    whole = [
        command for command in printed.commands() if command.text.startswith("trilane lab run")
    ]
    problems = [
        _planned(command, terminal)
        for command in (*printed.inline(), *whole)
        if command.text not in ELSEWHERE
    ]
    assert "\n".join(filter(None, problems)) == ""


def _saved(document: str) -> str:
    """The experiment that a document has its reader save as `hello.toml`."""
    block = r"`(?:experiments/)?hello\.toml`.*?^```toml\n(.*?)^```$"
    found = re.search(block, printed.documents()[document], re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]
