"""Runs on several machines, each of which is a child here: what they do adds up to one run."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from peers import callers
from peers.process import HOST, free_port
from peers.shares import Cluster, Frame, lost, running
from repository import native

from .loading import check, codes, flag

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from peers.authority import Authority
    from peers.callers import Callers
    from peers.running import Peers


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Callers]:
    with callers.serving(tmp_path_factory.mktemp("shares"), authority.local()) as server:
        yield server


@pytest.mark.parametrize("listener", ["h1", "h3"])
def test_shares_add_up_to_one_run(server: Callers, listener: str, tmp_path: Path) -> None:
    """Requests by number, connections and rate are dealt as to the threads of one machine."""
    before, _ = server.told()
    url = server.url(listener, HOST, f"/{listener}-{{seq}}")
    # Three threads of which the first machine has two; not as many requests and connections.
    load = [flag(listener), "-k", "-c", "7", "-n", "151", "-R", "600", url]
    cluster, lines = Cluster([2, 1]), tmp_path / "lines"
    sent = cluster.carry_out(load)
    assert [frames[0].kind for frames in sent] == ["S", "S"]
    assert [frames[-1].kind for frames in sent] == ["R", "R"]
    done = cluster.gather(sent, [*load, "--format", "json", "--ndjson", str(lines)])
    report = done.report
    check(report)
    assert codes(report).isdisjoint({"worker_lost", "accounts", "few_connections"}), report
    requests, plan = report["requests"], report["plan"]
    assert (requests["started"], requests["ok"], requests["failed"]) == (151, 151, 0)
    assert (plan["threads"], plan["connections"], plan["rate_per_s"]) == (3, 7, 600)
    assert report["connections"]["established"] == 7
    assert len(report["cost"]["busy"]) == 3
    asked, _ = server.told()
    ours = {path.rpartition("-")[2]: n for path, n in (asked - before).items() if "-" in path}
    assert ours == {str(number): 1 for number in range(151)}
    first, second = report["workers"]
    # Of 151 the first of three threads has 51, and the others have 50.
    assert (first["ok"], second["ok"]) == (101, 50)
    assert (first["name"], first["host"], first["threads"], first["cores"]) == ("w0", "here", 2, 2)
    assert (first["clock_offset_s"], first["clock_error_s"]) == (-0.001, 0.0001)
    assert first["lost"] is None
    assert first["start_late_s"] >= 0
    assert sum(json.loads(line)["ok"] for line in lines.read_text().splitlines()) == 151


def test_gates_are_for_all_machines_together(peers: Peers) -> None:
    load = ["-c", "4", "-n", "60", peers["embedded"].url("h1")]
    cluster = Cluster([1, 1])
    sent = cluster.carry_out(load)
    done = cluster.gather(sent, [*load, "-v", "--fail-if", "rate>1", "--fail-if", "failed>0"])
    assert done.code == 3, done
    assert "--fail-if rate>1 is true" in done.err
    assert "failed>0" not in done.err
    assert "Workers      what each machine did" in done.out
    assert "w0 on here" in done.out
    assert "w1 on here" in done.out


def test_what_a_lost_worker_did_is_shown(peers: Peers) -> None:
    load = ["-c", "4", "-n", "60", peers["embedded"].url("h1"), "--format", "json"]
    cluster = Cluster([1, 1])
    kept, cut = cluster.carry_out(load)
    done = cluster.gather([kept, [*cut[:-1], lost("the network to it is down")]], load)
    report = done.report
    check(report)
    assert done.code == 4, done
    assert "worker_lost" in codes(report)
    assert "w1 on here was lost: the network to it is down" in done.err
    assert [worker["lost"] for worker in report["workers"]] == [None, "the network to it is down"]
    # Its windows had come.
    assert [worker["ok"] for worker in report["workers"]] == [30, 30]
    assert report["requests"]["ok"] == 60
    # The same where nothing says so, and frames only end.
    report = cluster.gather([kept, cut[:-1]], load).report
    assert [bool(worker["lost"]) for worker in report["workers"]] == [False, True]


def test_frames_that_cannot_be_read_lose_their_worker(peers: Peers) -> None:
    load = ["-c", "4", "-n", "60", peers["embedded"].url("h1"), "--format", "json"]
    cluster = Cluster([1, 1])
    kept, cut = cluster.carry_out(load)
    for wrong in (Frame("R", cut[-1].rest[:-9]), Frame("W", b"\xff" * 99), Frame("x", b"")):
        done = cluster.gather([kept, [*cut[:-1], wrong]], load)
        assert done.code == 4, done
        assert "panicked" not in done.err
        assert "it sent" in done.report["workers"][1]["lost"]


def test_the_end_of_stdin_ends_a_share_with_its_reports(peers: Peers) -> None:
    load = ["-c", "4", "-d", "600s", "--warmup", "0s", peers["embedded"].url("h1")]
    cluster = Cluster([1, 1])
    with running(cluster, load) as shares:
        for share in shares:
            share.until("W")
        for share in shares:
            share.close_stdin()
        ended = [share.wait() for share in shares]
    assert [code for code, _ in ended] == [0, 0]
    done = cluster.gather([frames for _, frames in ended], [*load, "--format", "json"])
    assert done.code == 130, done
    assert done.report["interrupted"]
    assert all(worker["ok"] > 0 for worker in done.report["workers"])
    check(done.report)


def test_a_share_is_not_begun_late(peers: Peers) -> None:
    load = ["-n", "4", "-c", "2", peers["embedded"].url("h1")]
    ((code, frames), *_) = [share.wait() for share in Cluster([1]).start(load, -1.5)]
    assert code == 1
    assert [frame.kind for frame in frames] == ["E"]
    assert frames[0].json["exit_code"] == 1
    assert " ago " in frames[0].json["message"]


def test_where_nothing_came_of_it_the_first_error_is_told() -> None:
    load = ["-n", "4", "-c", "2", f"http://{HOST}:{free_port()}/"]
    cluster = Cluster([1, 1])
    sent = cluster.carry_out(load)
    assert [frames[-1].kind for frames in sent] == ["E", "E"]
    done = cluster.gather(sent, load)
    assert (done.code, done.out) == (1, ""), done
    assert "worker w0 on here: " in done.err
    assert "refused" in done.err


def test_shares_read_copies_of_the_files(server: Callers, tmp_path: Path) -> None:
    """What the command line names lies on the machine where it was typed."""
    typed, copy = tmp_path / "users.csv", tmp_path / "0"
    typed.write_text("name\nann\nbob\n")
    url = server.url("h1", HOST, f"/copied-{{csv:{typed}:name}}")
    load = ["-n", "4", "-c", "2", url]
    described = describe("8", *load)
    assert json.loads(described.stdout)["files"] == [str(typed)]
    typed.rename(copy)
    before, _ = server.told()
    cluster = Cluster([1, 1], {str(typed): str(copy)})
    sent = cluster.carry_out(load)
    assert [frames[-1].kind for frames in sent] == ["R", "R"], sent
    asked = {path.rpartition("/")[2]: n for path, n in (server.told()[0] - before).items()}
    assert {name: asked[name] for name in ("copied-ann", "copied-bob")} == {
        "copied-ann": 2,
        "copied-bob": 2,
    }
    # And nothing else of the machine that they are on.
    (frames,) = Cluster([1]).carry_out(["-n", "4", "-b", f"@{copy}", server.url("h1", HOST, "/")])
    assert "no copy of this file" in frames[-1].json["message"]


def describe(threads: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [native(), "load", "--cluster-describe", threads, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_command_line_is_described(tmp_path: Path) -> None:
    (tmp_path / "part.proto").write_text('syntax = "proto3"; package p; message M {}\n')
    (tmp_path / "s.proto").write_text(
        'syntax = "proto3"; package p; import "part.proto";\nservice S { rpc Do(M) returns (M); }\n'
    )
    (tmp_path / "body").write_text("{}")
    proto, body = str(tmp_path / "s.proto"), str(tmp_path / "body")
    call = ["--grpc", "p.S/Do", "--proto", proto, "-b", f"@{body}", "-d", "3s", "http://a/"]
    told = json.loads(describe("8", "-c", "16", *call).stdout)
    assert told["files"] == sorted([body, str(tmp_path / "part.proto"), proto])
    assert (told["threads"], told["threads_typed"], told["duration_s"]) == (8, False, 4.0)
    assert told["version"]
    typed = json.loads(describe("8", "-t", "3", "-n", "5", "http://a/").stdout)
    assert (typed["threads"], typed["threads_typed"], typed["duration_s"]) == (3, True, None)
    # Each thread has a connection at least.
    assert json.loads(describe("8", "-c", "5", "http://a/").stdout)["threads"] == 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--search", "p99<1s", "http://a/"], "one rate is run"),
        (["-b", "@-", "http://a/"], "cannot read one stdin"),
        (["--server-pid", "1", "http://a/"], "do not see the server"),
        (["--grpc", "p.S/M", "--show", "http://a/"], "from this machine"),
        (["-c", "0", "http://a/"], "-c"),
    ],
)
def test_what_several_machines_cannot_do_is_refused(arguments: list[str], said: str) -> None:
    done = describe("8", *arguments)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert said in done.stderr


def test_the_native_program_alone_knows_no_clusters() -> None:
    done = subprocess.run(
        [native(), "load", "--cluster", "tcp://127.0.0.1:8786", "http://a/"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install 'trilane[cluster]'" in done.stderr
