"""What `trilane.client` imports before it is needed: little, for programs that run for a moment."""

from __future__ import annotations

import subprocess
import sys

import pytest

from repository import ROOT

HEAVY = {
    "dataclasses",
    "email",
    "http",
    "inspect",
    "json",
    "socket",
    "ssl",
    "urllib",
    "asyncio",
} | {
    "hishel",
    "sqlite3",
}
PROGRAMS = {
    "import": "from trilane.client import Client",
    "a client": "from trilane.client import Client; Client().close()",
    "an error": "from trilane.client import Client, ConnectFailed, Error, Timeout",
}


@pytest.mark.parametrize("code", PROGRAMS.values(), ids=list(PROGRAMS))
def test_what_is_heavy_is_imported_when_it_is_needed(code: str) -> None:
    show = "import sys; print(*sorted(name for name in sys.modules if '.' not in name))"
    command = [sys.executable, "-I", "-S", "-c"]
    done = subprocess.run(
        # Without `site`, whose hooks for packages import what they like.
        [
            *command,
            f"import sys; sys.path[:0] = sys.argv[1:]; {code}; {show}",
            str(ROOT / "python"),
        ],
        env={},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert HEAVY.isdisjoint(done.stdout.split())


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("ConnectionClosed", "http.client.RemoteDisconnected"),
        ("IncompleteBody", "http.client.IncompleteRead"),
        ("LimitExceeded", "http.client.HTTPException"),
        ("RemoteProtocolError", "http.client.HTTPException"),
        ("TLSError", "ssl.SSLError"),
    ],
)
def test_an_error_that_comes_late_is_one_class(name: str, base: str) -> None:
    code = (
        "import http.client, pickle, ssl\n"
        "from trilane.client import errors\n"
        f"kind = errors.{name}\n"
        f"assert issubclass(kind, ({base}, errors.Error)) and issubclass(kind, {base})\n"
        f"assert kind is errors.{name} and kind.__module__ == 'trilane.client.errors'\n"
        "made = kind('why', stream_id=3)\n"
        "again = pickle.loads(pickle.dumps(made))\n"
        "assert (type(again), str(again), again.stream_id) == (kind, 'why', 3)\n"
        "assert not hasattr(errors, 'Nonsense')\n"
    )
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = sys.argv[1:]; {code}"]
    subprocess.run([*command, str(ROOT / "python")], timeout=60, check=True)


def test_the_client_and_the_native_commands_import_no_package() -> None:
    """In a process of its own that has the standard library and this package alone."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import trilane.client as client, trilane.__main__ as entry\n"
        "[getattr(client, name) for name in client.__all__]\n"
        "client.Client().close()\n"
        "sys.argv = ['trilane', 'load', '--help']; sys.exit(entry.main())"
    )
    package = str(ROOT / "python")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, package],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: trilane load" in done.stdout
