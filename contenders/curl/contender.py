# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "hdrhistogram==0.10.8",
#     "pbr==7.1.3",
#     "setuptools==84.2.1",
# ]
#
# [tool.trilane]
# name = "curl"
# title = "curl"
# versions = ["h1", "h2", "h2c", "h3"]
# requires = ["curl"]
# note = "the installed command; a process and a connection for each request, as in a script"
# strategies = ["serial", "threads"]
# ///
"""The command curl: the CPU of its processes counts, that of the few lines here hardly does."""

import functools
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from trilane_contender import Answer, Library, Plan, run
from trilane_contender.curl import broken

CURL = shutil.which("curl") or "curl"
ASKED = {
    "h1": "--http1.1",
    "h2": "--http2",
    "h2c": "--http2-prior-knowledge",
    "h3": "--http3-only",
}
# What `curl --version` must name.
FEATURES = {"h2": "HTTP2", "h2c": "HTTP2", "h3": "HTTP3"}
SPOKEN = {"1.1": "h1", "2": "h2", "3": "h3"}
# What curl would add by itself; a name without a value takes it away.
OWN_HEADERS = ("accept", "content-type", "expect", "user-agent")
COULDNT_CONNECT = 7
# What curl does not give up by itself ends then.
SPARE_S = 30.0


@functools.cache
def about() -> str:
    """What `curl --version` says."""
    return subprocess.run(
        [CURL, "--version"], capture_output=True, text=True, timeout=20, check=True
    ).stdout


def release() -> tuple[str, str]:
    """Name and version of the command."""
    name, version, *_ = about().split()
    return name, version


def cannot(plan: Plan) -> str | None:
    """Why this build of curl cannot do the plan."""
    feature = FEATURES.get(plan.version)
    known = re.search(r"^Features:(.*)$", about(), re.MULTILINE)
    if feature is not None and (known is None or feature not in known[1].split()):
        return f"{' '.join(release())} was built without {feature}"
    return None


class Client:
    """The options that all requests have in common."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        given = {name for name, _ in plan.headers}
        fields = [f"{name}: {value}" for name, value in plan.headers]
        fields += [f"{name}:" for name in OWN_HEADERS if name not in given]
        self._options = [
            # First, as curl demands: no ~/.curlrc.
            *("--disable", "--silent", "--show-error", "--noproxy", "*"),
            ASKED[plan.version],
            *("--max-time", f"{plan.timeout_s:g}"),
            *(word for field in fields for word in ("--header", field)),
            *("--write-out", "%{stderr}%{json}"),
        ]
        if plan.gzip:
            self._options.append("--compressed")
        if plan.cacert is not None:
            self._options += ["--cacert", plan.cacert]
        if plan.body_file is not None:
            self._options += ["--request", plan.method, "--upload-file", str(plan.body_file)]
        elif plan.body is not None:
            self._options += ["--request", plan.method, "--data-binary", "@-"]
        elif plan.method == "HEAD":
            self._options.append("--head")
        elif plan.method != "GET":
            self._options += ["--request", plan.method]

    def fetch(self, path: str) -> Answer:
        """One process. A body that is discarded goes where curl itself throws it away."""
        plan = self._plan
        target = ("--output", "/dev/null") if plan.discard else ()
        with tempfile.TemporaryFile() as told:
            done = subprocess.run(
                [CURL, *self._options, *target, plan.target + path],
                input=plan.body or b"",
                stdout=subprocess.PIPE,
                stderr=told,
                timeout=plan.timeout_s + SPARE_S,
                check=False,
            )
            told.seek(0)
            about_it = json.loads(told.read().splitlines()[-1])
        if done.returncode:
            message = about_it["errormsg"] or "without a message"
            raise broken(done.returncode, message, self._errno(done.returncode))
        return Answer(
            about_it["response_code"],
            SPOKEN.get(about_it["http_version"], f"HTTP/{about_it['http_version']}"),
            b"" if plan.discard else done.stdout,
            about_it["size_download"] if plan.discard else None,
        )

    def close(self) -> None:
        """Nothing is kept."""

    def _errno(self, code: int) -> int:
        """Why no connection came about, which curl does not say: another attempt tells."""
        if code == COULDNT_CONNECT and self._plan.version != "h3":
            try:
                place = (self._plan.host, self._plan.port)
                socket.create_connection(place, self._plan.timeout_s).close()
            except OSError as error:
                return error.errno or 0
        return 0


if __name__ == "__main__":
    sys.exit(
        run(
            Library(
                distribution=None,
                client=Client,
                release=release,
                streams_bodies=True,
                keeps_connections=False,
                cannot=cannot,
            )
        )
    )
