"""The listings of the posts about hyper run as they were printed, but for imports and hosts.

`post_000.py.txt` is "HTTP/1.1 and HTTP/2: A Performance Comparison for Python" (2014), `post_001`
the client of the post about Twisted's server (2016).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from peers import posts
from peers.authority import Authority

HERE = Path(__file__).parent
IMPORTS = (
    ("import hyper\n", "import trilane.client.hyper as hyper\n"),
    ("from hyper import ", "from trilane.client.hyper import "),
    ("from hyper.contrib import ", "from trilane.client.hyper.contrib import "),
)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[int]:
    with posts.serving(tmp_path_factory.mktemp("posts"), authority.local()) as port:
        yield port


def _run(listing: str, hosts: dict[str, str], ca: Path) -> list[str]:
    code = (HERE / listing).read_text(encoding="utf-8")
    for old, new in (*IMPORTS, *hosts.items()):
        code = code.replace(old, new)
    assert "import hyper" not in code.replace("import trilane.client.hyper as hyper", "")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            # What is trusted by those who say nothing.
            "SSL_CERT_FILE": str(ca),
            "REQUESTS_CA_BUNDLE": str(ca),
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_post_000(port: int, authority: Authority) -> None:
    place = f"localhost:{port}"
    hosts = {"www.twitter.com": place, "twitter.com": place, "nghttp2.org'": f"{place}'"}
    said = _run("post_000.py.txt", hosts, authority.local().ca)
    assert said[:2] == ["200", "200"]
    rest = [re.sub(r"\d+\.\d+( seconds|$)", "N", line) for line in said[2:]]
    assert rest == [
        "HTTP/1.1 total time: N",
        "HTTP/2   total time: N",
        "HTTP/1.1 total time: N",
        "HTTP/2   total time: N",
        f"HTTP/1.1 scrape took N to scrape {posts.PAGES + 1} URLs",
        f"HTTP/2 scrape took N to scrape {posts.PAGES + 1} URLs",
        "HTTP/1.1 scrape took N to scrape 50 URLs",
        "HTTP/2 scrape took N to scrape 50 URLs",
    ]


def test_post_001(port: int, authority: Authority) -> None:
    hosts = {"localhost:8080": f"127.0.0.1:{port}"}
    assert _run("post_001.py.txt", hosts, authority.local().ca) == []
