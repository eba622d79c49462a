# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "a2wsgi==1.10.10",
#     "aioquic==1.7.2",
#     "attrs==26.1.0",
#     "blinker==1.9.0",
#     "brotlicffi==1.2.1.0",
#     "certifi==2026.10.18",
#     "cffi==2.1.1",
#     "charset-normalizer==3.5.2",
#     "click==8.5.1",
#     "colorama==0.4.6 ; sys_platform == 'win32'",
#     "cryptography==50.0.2",
#     "decorator==5.3.1",
#     "flask==3.1.3",
#     "greenlet==2.0.2 ; python_full_version < '3.12'",
#     "greenlet==3.5.6 ; python_full_version >= '3.12'",
#     "h11==0.16.0",
#     "h2==4.4.1",
#     "hpack==4.2.0",
#     "httpbin==0.10.4",
#     "hypercorn==0.18.0",
#     "hyperframe==6.1.0",
#     "idna==3.20",
#     "iniconfig==2.3.1",
#     "itsdangerous==2.2.0",
#     "jinja2==3.1.6",
#     "markupsafe==3.0.4",
#     "packaging==26.3",
#     "pip==26.3",
#     "pluggy==1.7.0",
#     "priority==2.0.0",
#     "pycparser==3.12 ; implementation_name != 'PyPy'",
#     "pygments==2.21.0",
#     "pylsqpack==1.0.0",
#     "pyopenssl==26.4.0",
#     "pysocks==1.7.1",
#     "pytest==9.2.0",
#     "pytest-httpbin==2.1.0",
#     "pytest-mock==3.17.0",
#     "pytest-timeout==2.4.0",
#     "requests==2.34.2",
#     "service-identity==26.1.0",
#     "setuptools==84.2.1",
#     "six==1.17.0",
#     "trustme==1.2.1",
#     "typing-extensions==4.16.0 ; python_full_version < '3.13'",
#     "urllib3==2.8.0",
#     "werkzeug==3.1.9",
#     "wsproto==1.3.2",
# ]
# ///
"""Run Requests' own tests, with TrilaneAdapter or (`--baseline`) with Requests' own adapter.

The tests are only in the source distribution: it is fetched by pip, checked by its hash and kept in
the folder `--cache`. They run in three processes at once, as most of them sleep.

With `--over h2` or `--over h3` the requests to httpbin, which most cases make, go to Hypercorn over
TLS and that version, and only the cases of `test_requests.py` run.

`--outcomes` gets {"cases": {"id": ["passed" | "failed" | "skipped", "why"]}, "versions": {"20": how
many responses had that version}}.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import trustme  # type: ignore[import-not-found]

from client.suites import Source, run

Cases: TypeAlias = tuple[tuple[str, ...], dict[str, str]]
"""Arguments and environment of one pytest."""

SOURCE = Source(
    "requests", "2.34.2", "f288924cae4e29463698d6d60bc6a4da69c89185ad1e0bcc4104f584e960b9ed"
)
CASE_LIMIT_S = 40
SERVER_LIMIT_S = 30
HERE = Path(__file__).resolve().parent
TIMEOUTS = "tests/test_requests.py::TestTimeout"
PARTS: tuple[tuple[str, ...], ...] = (
    (TIMEOUTS,),
    ("tests/test_requests.py", "--deselect", TIMEOUTS),
    ("tests", "--ignore", "tests/test_requests.py"),
)
# What stays in `make test`: sessions with httpbin, and two of the cases with servers of their own,
# which take a second each. Those with a proxy of the environment do not stay: each waits five
# seconds where httpbin.org cannot be looked up.
FEW: tuple[tuple[str, ...], ...] = (
    (
        *(f"tests/test_lowlevel.py::test_chunked_{what}" for what in ("upload", "encoding_error")),
        "tests/test_requests.py::TestRequests",
        *("-k", "redirect or post or stream or auth or chunked"),
    ),
)
# Cases that give an answer up, which comes after 10 s. It ends all of Hypercorn 0.18 then, over
# HTTP/3: each part has a server of its own, and these are over in time.
CANCELLING = (f"{TIMEOUTS}::test_stream_timeout", f"{TIMEOUTS}::test_read_timeout")
PARTS_OVER_TLS = (
    CANCELLING,
    ("tests/test_requests.py", *(f"--deselect={case}" for case in CANCELLING)),
)


def main() -> int:
    """Fetch, unpack, run; 0 when every part ran to its end, whatever the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, metavar="DIR")
    parser.add_argument("--outcomes", type=Path, required=True, metavar="FILE")
    parser.add_argument("--baseline", action="store_true", help="with Requests' own adapter")
    parser.add_argument("--few", action="store_true", help="those of `make test`, over HTTP/1.1")
    parser.add_argument("--over", choices=["h1", "h2", "h3"], default="h1")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        root = stack.enter_context(SOURCE.unpacked(given.cache))
        # Settings of this machine, which Requests would take for its own.
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
            os.environ.pop(name, None)
        settings = {"SUITE_BASELINE": "1" if given.baseline else "", "SUITE_OVER": given.over}
        parts: list[Cases] = [(part, settings) for part in (FEW if given.few else PARTS)]
        if given.over != "h1":
            parts = []
            for number, part in enumerate(PARTS_OVER_TLS):
                place = root / f"httpbin-{number}"
                place.mkdir()
                parts.append((part, settings | stack.enter_context(httpbin(place))))
        found = run(root, HERE / "mounting.py", parts, case_limit_s=CASE_LIMIT_S)
    given.outcomes.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    return 0


@contextlib.contextmanager
def httpbin(folder: Path) -> Iterator[dict[str, str]]:
    """httpbin over HTTP/2 and HTTP/3; gives its address and authority as settings."""
    authority = trustme.CA()
    leaf = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    leaf.private_key_and_cert_chain_pem.write_to_path(str(folder / "leaf.pem"))
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
    place, pem = f"127.0.0.1:{port}", str(folder / "leaf.pem")
    settings = {
        "bind": place,
        "quic_bind": place,
        "certfile": pem,
        "keyfile": pem,
        # Hypercorn 0.18 handles QUIC's timers while it waits for a full queue, and content that
        # arrives then is handed on in the wrong order, or not at all.
        "max_app_queue_size": 100_000,
    }
    lines = (f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    (folder / "hypercorn.toml").write_text("".join(lines))
    with (folder / "hypercorn.log").open("wb") as log:
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "hypercorn", "--config", str(folder / "hypercorn.toml")),
                "httpbin_asgi:app",
            ],
            env=os.environ | {"PYTHONPATH": str(HERE)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(port, server, folder / "hypercorn.log")
        yield {"SUITE_HTTPBIN": f"https://{place}", "SUITE_CA": str(folder / "ca.pem")}
    finally:
        server.terminate()
        try:
            server.wait(SERVER_LIMIT_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(SERVER_LIMIT_S)


def wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    """Until somebody listens."""
    deadline = time.monotonic() + SERVER_LIMIT_S
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as asking:
            if asking.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit(f"Hypercorn did not come up:\n{log.read_text(errors='replace')}")


if __name__ == "__main__":
    raise SystemExit(main())
