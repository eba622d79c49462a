"""Two revisions of a small program, typed as a user types it: built, measured, judged."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from lab.typed import TRILANE, Done, planned, trilane
from peers.running import absent
from repository import ROOT, native
from trilane.lab import ab
from trilane.lab.processes.launch import find_program

LIMIT_S = 300
PYTHON = sys.executable
SERVER = """\
import socketserver, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", 65536

    def do_GET(self):
        sum(range({work}))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass

class Server(socketserver.ThreadingMixIn, HTTPServer):
    daemon_threads = True

held = b"x" * ({work} * 629)
Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
UNTIL_TOLD = "if len(sys.argv) < 2: sys.exit('no port was given')\n" + SERVER.replace("{work}", "1")
# Several times the work of everything else that a request costs, and 60 MiB.
LIGHT, HEAVY = 1, 100_000
QUICK = ("-c", "2", "-d", "100ms", "--warmup", "0s", "--no-pin")
SERVED = ("--serve", f"{PYTHON} app.py {{port}}", *QUICK)


@dataclass
class Repository:
    """A repository with a server, and the command in it."""

    program: str
    """git's."""
    folder: Path
    state: Path

    def commit(self, message: str, effort: int, /, **files: str) -> None:
        """`files` are further ones, by their names without `.py`."""
        files["app"] = SERVER.replace("{work}", str(effort))
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(text)
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", message)

    def costly(self, **files: str) -> None:
        """A branch that is checked out, whose files differ from those of main."""
        self.git("checkout", "--quiet", "-b", "costly")
        self.commit("Add <up>", HEAVY, **files)

    def git(self, *words: str) -> None:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        words = (self.program, *who, *words)
        subprocess.run(words, cwd=self.folder, check=True, timeout=LIMIT_S)

    def commit_of(self, branch: str) -> str:
        words = (self.program, "rev-parse", branch)
        done = subprocess.run(
            words, cwd=self.folder, capture_output=True, text=True, check=True, timeout=LIMIT_S
        )
        return done.stdout.strip()

    def ab(self, *flags: str, folder: Path | None = None) -> Done:
        """The server of both compared."""
        return self.typed(*SERVED, *flags, folder=folder)

    def typed(self, *flags: str, folder: Path | None = None) -> Done:
        """The command with these flags."""
        return trilane(*self.words(*flags), folder=folder or self.folder)

    def words(self, *flags: str) -> list[str]:
        """What is typed behind `trilane`."""
        report = str(self.state / "report.html")
        return ["ab", "--blocks", "7", "--state", str(self.state), "--report", report, *flags]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    program = find_program("git")
    if program is None:
        absent("git is not installed on this machine")
    made = Repository(program, tmp_path / "app", tmp_path / "state")
    made.folder.mkdir()
    made.state.mkdir()
    made.git("init", "--quiet", "--initial-branch", "main")
    made.commit("Serve", LIGHT)
    return made


def test_a_costlier_revision_breaches_its_budgets(repository: Repository) -> None:
    repository.costly()
    (repository.folder / "app.py").write_text("not committed, not measured")
    told = repository.state / "told.md"
    build = "echo building; echo built >> log"
    budgets = "cpu +50%, rss +100%, rate -99.9%"
    flags = ("--build", build, "--budget", budgets, "--markdown", str(told))
    first = repository.ab(*flags, "--format", "json")
    assert first.returncode == 3, first.stderr
    assert "building main (" in first.stderr
    assert "building HEAD (" in first.stderr
    assert "what is not committed is not measured" in first.stderr
    result = json.loads(first.stdout)
    assert result["schema"] == "trilane.contrast/1"
    assert (result["a"]["label"], result["b"]["label"]) == ("main", "HEAD")
    assert result["a"]["revision"] == repository.commit_of("main")
    assert result["b"]["revision"] == repository.commit_of("costly")
    assert result["arms"] == [{"name": "program", "title": "app: Add <up>"}]
    assert (result["paired"], result["plan"]["blocks_done"]) == (True, 7)
    budget, memory, rate = result["budgets"]
    assert (budget["text"], budget["verdict"]) == ("cpu +50%", "breached")
    assert (budget["measure"], budget["limit"]) == ("server_cpu_us_per_request", 1.5)
    assert budget["interval"][0] > 1.5
    assert (memory["text"], memory["verdict"]) == ("rss +100%", "breached")
    assert memory["measure"] == "server_peak_rss_bytes"
    assert (rate["verdict"], rate["above"]) == ("met", False)
    assert rate["limit"] == pytest.approx(0.001)
    low, high = rate["interval"]
    assert 0.001 < low <= rate["ratio"] <= high
    for run in runs(result):
        # One of both runs twice in each block.
        assert run["plan"]["turns"] == {"length_s": 0.02, "of": 3}
    [cpu] = [row for row in result["ratios"] if row["measure"] == budget["measure"]]
    assert (cpu["arm"], cpu["finding"]) == ("program", "higher")
    assert cpu["a"]["median"] < cpu["b"]["median"]
    assert "| breached |" in told.read_text()
    page = (repository.state / "report.html").read_text()
    assert "Add &lt;up&gt;" in page
    # The run stays, and is read as any other.
    [source] = result["b"]["sources"]
    shown = trilane("report", source["name"], "--state", str(repository.state))
    assert shown.returncode == 0, shown.stderr
    assert "requests/s" in shown.stdout
    # Built once: each tree was told so one time.
    again = planned(*repository.words(*SERVED, *flags), folder=repository.folder)
    assert "building" not in again.stderr
    logs = list(repository.state.glob("revisions/*/*/tree/log"))
    assert [log.read_text() for log in logs] == ["built\n", "built\n"]
    # The tree that the user works in is as it was.
    assert not (repository.folder / "log").exists()


def test_runs_may_follow_one_another(repository: Repository) -> None:
    for flags in (("--turn", "0s"), ("-R", "50")):
        words = repository.words(*SERVED, "--head", "main", *flags)
        assert planned(*words, folder=repository.folder).form.turn_s is None
    both = repository.ab("--turn", "20ms", "-R", "50")
    assert both.returncode == 2
    assert "--turn and -R: at a rate one run follows the other" in both.stderr
    command = repository.typed("--command", "true", "--turn", "20ms")
    assert command.returncode == 2
    assert "--turn goes with --serve" in command.stderr


def test_a_server_that_ends_early_is_told_with_its_words(repository: Repository) -> None:
    # It serves the first that asks, and no process after that.
    once = "import os, sys; sys.argv[1:] = [] if os.path.exists('begun') else sys.argv[1:]\n"
    (repository.folder / "app.py").write_text(once + "open('begun', 'w')\n" + UNTIL_TOLD)
    repository.git("commit", "--quiet", "--all", "--message", "Serve once")
    done = repository.ab("--base", "HEAD~1")
    assert done.returncode == 1, done.stdout
    assert "every run of a block failed" in done.stderr
    assert "no port was given" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_cannot_be_had_says_why(repository: Repository, tmp_path: Path) -> None:
    unknown = repository.ab("--head", "nowhere")
    assert unknown.returncode == 2
    assert "'nowhere' is no revision of" in unknown.stderr
    broken = repository.ab("--build", "echo this went wrong >&2; exit 7")
    assert broken.returncode == 1
    assert "ended with 7" in broken.stderr
    assert "  this went wrong" in broken.stderr
    slow = repository.ab("--build", "sleep 100", "--build-timeout", "100ms")
    assert slow.returncode == 1
    assert "was not built within 0.1 s: --build-timeout says" in slow.stderr
    elsewhere = repository.ab(folder=tmp_path)
    assert elsewhere.returncode == 1
    assert "is in no git repository" in elsewhere.stderr
    few = repository.ab("--blocks", "6")
    assert few.returncode == 2
    assert "give at least 7" in few.stderr
    for done in (unknown, broken, slow, elsewhere, few):
        assert "Traceback" not in done.stderr


WORK = """\
import sys
sum(range({work}))
kept = b"a" * {memory}
"""
COMMAND = f"{PYTHON} -IS work.py"
MIB = 1 << 20


def test_a_command_is_timed_from_outside(repository: Repository) -> None:
    repository.commit("Work", LIGHT, work=WORK.format(work=100_000, memory=1))
    repository.costly(work=WORK.format(work=4_000_000, memory=64 * MIB))
    budget = ("--budget", "cpu +30%, rss +30%, wall +90000%")
    flags = ("--command", COMMAND, *budget, "--repeat", "2", "--format", "json")
    # In a process of its own, whose memory is not above that of the command.
    done = subprocess.run(
        [*TRILANE, *repository.words(*flags)],
        cwd=repository.folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    result = json.loads(done.stdout)
    assert {each["text"]: each["verdict"] for each in result["budgets"]} == {
        "cpu +30%": "breached",
        "rss +30%": "breached",
        "wall +90000%": "met",
    }
    rows = {row["measure"]: row for row in result["ratios"]}
    assert rows["cpu_s"]["a"]["unit"] == "s"
    assert rows["peak_rss_bytes"]["b"]["median"] > 64 * MIB > rows["peak_rss_bytes"]["a"]["median"]
    assert rows["total_s"]["ratio"] > 1
    for run in runs(result):
        assert run["repetitions"]["count"] == 2
        # Of each time it is run, not of all of them.
        assert run["process"]["wall_s"] == pytest.approx(run["repetitions"]["mean_s"])


def runs(result: dict[str, Any]) -> list[dict[str, Any]]:
    """All runs of both sides, as they were kept."""
    [source] = result["a"]["sources"]
    kept = sorted(Path(source["path"]).glob("runs/*.json"))
    assert kept
    return [json.loads(path.read_text()) for path in kept]


def test_a_command_runs_for_a_time_behind_what_prepares_it(repository: Repository) -> None:
    # Fails where it was not prepared anew each time; two words need a shell.
    command = "test -s made && rm made"
    flags = ("--head", "main", "--prepare", "echo x > made", "-d", "60ms", "--warmup", "10ms")
    done = repository.typed("--command", command, *flags, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert any(run["repetitions"]["count"] > 1 for run in runs(json.loads(done.stdout)))
    unprepared = repository.typed("--command", command, "--head", "main")
    assert unprepared.returncode == 1
    assert f"base cannot run here: {command} ended with exit code 1" in unprepared.stderr


def test_executions_of_both_alternate(repository: Repository) -> None:
    log = repository.state / "log"
    repository.commit("Work", LIGHT, work=f"open({str(log)!r}, 'a').write('base ')")
    repository.costly(work=f"open({str(log)!r}, 'a').write('head ')")
    done = repository.typed("--command", COMMAND, "--repeat", "2", "--format", "json")
    assert done.returncode == 0, done.stderr
    # Behind a try of both, two rounds in each of seven blocks.
    made = log.read_text().split()[2:]
    rounds = [made[at : at + 3] for at in range(0, len(made), 3)]
    assert len(rounds) == 2 * 7
    assert all(set(each) == {"base", "head"} for each in rounds)


def test_a_command_that_fails_tells_what_it_printed_last(repository: Repository) -> None:
    fails = "print('begun'); print('the cause'); raise SystemExit(7)"
    repository.commit("Work", LIGHT, work="print('fine')")
    repository.costly(work=fails)
    done = repository.typed("--command", COMMAND)
    assert done.returncode == 1
    assert f"head cannot run here: {COMMAND} ended with exit code 7" in done.stderr
    assert "\n  begun\n  the cause" in done.stderr
    slow = repository.typed("--command", "sleep 100", "--timeout", "100ms")
    assert slow.returncode == 1
    assert "did not end within 0.1 s: --timeout says how long" in slow.stderr


CLIENT = """\
import http.client, ssl, sys
from urllib.parse import urlsplit

url = urlsplit(sys.argv[1])
context = ssl.create_default_context(cafile=sys.argv[2])
connection = http.client.HTTPSConnection(url.netloc, context=context)
for _ in range({requests}):
    connection.request("GET", url.path)
    assert connection.getresponse().read() == b"hello world"
    sum(range({work}))
"""
ASK = f"{PYTHON} -IS ask.py {{url}}"
REQUESTS = 10


def test_what_a_client_spends_on_a_request_is_counted_by_the_server(
    repository: Repository,
) -> None:
    repository.commit("Ask", LIGHT, ask=CLIENT.format(requests=REQUESTS, work=1))
    # As much as it takes to start Python.
    repository.costly(ask=CLIENT.format(requests=REQUESTS, work=500_000))
    flags = ("--budget", "cpu +20%", "--repeat", "2", "--no-pin", "--format", "json")
    done = repository.typed("--client", f"{ASK} {{cacert}}", "--tls", *flags)
    assert done.returncode == 3, done.stderr
    result = json.loads(done.stdout)
    [budget] = result["budgets"]
    assert (budget["measure"], budget["verdict"]) == ("client_cpu_us_per_request", "breached")
    rows = {row["measure"]: row for row in result["ratios"]}
    assert rows["requests_per_s"]["ratio"] < 1
    assert rows["server_cpu_us_per_request"]["a"]["median"] > 0
    for run in runs(result):
        assert (run["requests"]["ok"], run["target"]["connections"]) == (2 * REQUESTS, 2)
        assert run["target"]["url"].startswith("https://")
        spent_s = run["cost"]["user_s"] + run["cost"]["system_s"]
        per_request = pytest.approx(1e6 * spent_s / (2 * REQUESTS))
        assert run["cost"]["cpu_us_per_request"] == per_request
        [busy] = run["cost"]["busy"]
        assert 0 < busy <= 1


def test_a_client_that_asks_nothing_is_told_so(repository: Repository) -> None:
    done = repository.typed("--client", "echo {url}", "--head", "main")
    assert done.returncode == 1
    assert "base cannot run here: the server counted no request" in done.stderr


PLAIN = """\
import socket, sys

place, _, path = sys.argv[1].removeprefix("http://").partition("/")
host, port = place.split(":")
with socket.create_connection((host, int(port))) as connection:
    connection.sendall(f"GET /{path} HTTP/1.0\\r\\n\\r\\n".encode())
    while connection.recv(4096):
        pass
"""


def test_a_client_may_ask_a_server_elsewhere(repository: Repository) -> None:
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello world")

        def log_message(self, *_: object) -> None:
            pass

    repository.commit("Ask", LIGHT, ask=PLAIN)
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/there"
            flags = ("--client", ASK, "--url", url, "--head", "main", "--repeat", "1")
            done = repository.typed(*flags, "--format", "json")
        finally:
            server.shutdown()
            thread.join()
    assert done.returncode == 0, done.stderr
    measures = {row["measure"] for row in json.loads(done.stdout)["ratios"]}
    assert "cpu_s" in measures
    assert "requests_per_s" not in measures
    # A try of both, and three runs in each of seven blocks.
    assert asked == ["/there"] * (2 + 3 * 7)


def test_it_goes_on_until_its_budgets_are_decided(repository: Repository) -> None:
    repository.commit("Work", LIGHT, work=WORK.format(work=100_000, memory=1))
    repository.costly(work=WORK.format(work=3_000_000, memory=1))
    flags = ("--until-decided", "--blocks", "30", "--repeat", "1", "--format", "json")
    done = repository.typed("--command", COMMAND, "--budget", "cpu +30%, wall +90000%", *flags)
    assert done.returncode == 3, done.stderr
    assert "ends once its budgets are decided: looks after 10, 14, 20 and at most 30" in done.stderr
    result = json.loads(done.stdout)
    assert [each["verdict"] for each in result["budgets"]] == ["breached", "met"]
    plan = result["plan"]
    assert plan["blocks_done"] == plan["looks"][plan["ended_at"] - 1]["blocks"] < 30
    # An early look has wider intervals.
    assert all(each["level"] > 0.95 for each in result["budgets"])


def test_trilane_is_compared_with_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = find_program("git")
    if program is None or not (ROOT / ".git").exists():
        absent("this is no checkout of git's")
    build = f"mkdir -p target/release && ln -f -s {shlex.quote(native())} target/release/trilane"
    rows = ["server-h1", "server-h2c", "server-h3", "engine-h1", "engine-h2c", "engine-h3"]
    script = tmp_path / "trilane"
    script.write_text(SAYS.format(python=PYTHON))
    script.chmod(0o755)
    done = subprocess.run(
        [ROOT / ".ci" / "ab", *rows],
        env={
            **os.environ,
            "AB_TRILANE": str(script),
            "AB_BASE": "HEAD",
            "AB_HEAD": "HEAD",
            "AB_BUILD": build,
            "AB_BUDGET": "cpu +9000%",
            "AB_LENGTH": "50ms",
            "AB_REQUESTS": "100",
            "AB_ARGS": f"--blocks 1 --warmup 0s --state {tmp_path} --format json --no-pin",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    # The largest of all rows.
    assert done.returncode == 3, done.stderr
    typed = dict(zip(rows, map(json.loads, done.stdout.splitlines()), strict=True))
    # That the runs are made is shown by one block; so few would decide nothing.
    monkeypatch.setattr(ab, "LEAST_BLOCKS", 1)
    for row, words in typed.items():
        version = row.partition("-")[2]
        assert {arm.version for arm in planned(*words, folder=ROOT).form.arms} == {version}
    for row, measure in (
        ("server-h3", "server_cpu_us_per_request"),
        ("engine-h2c", "client_cpu_us_per_request"),
    ):
        ended = trilane(*typed[row], folder=ROOT)
        result = json.loads(ended.stdout)
        assert [budget["measure"] for budget in result["budgets"]] == [measure], ended.stderr
        assert all(run["requests"]["ok"] > 0 for run in runs(result))
    subprocess.run([program, "worktree", "prune"], cwd=ROOT, check=False, timeout=LIMIT_S)


SAYS = """\
#!{python}
import json, sys
print(json.dumps(sys.argv[1:]))
sys.exit(3 if "engine-h1" in str(sys.argv) else 0)
"""
"""Stands for `trilane`: says how it was called, and ends in the middle row with another code."""
