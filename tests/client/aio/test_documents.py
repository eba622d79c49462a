"""The examples of the pages run, and print what they say in comments."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from peers.peer import Peer

DOCS = Path(__file__).resolve().parents[3] / "docs" / "client"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SAID = re.compile(r"print\(.*?\)  # (.*)")


def examples() -> list[tuple[str, str]]:
    return [
        (f"{name}-{number}", code)
        for name in ("asyncio", "httpx")
        for number, code in enumerate(BLOCK.findall((DOCS / f"{name}.md").read_text("utf-8")), 1)
    ]


@pytest.mark.parametrize(("name", "code"), examples(), ids=[name for name, _ in examples()])
def test_example(name: str, code: str, server: Peer, tmp_path: Path) -> None:
    assert server.ca is not None
    (tmp_path / "ca.pem").write_bytes(server.ca.read_bytes())
    for listener, port in (("h1", "8080"), ("h2", "8443")):
        code = code.replace(port, str(urlsplit(server.bases[listener]).port))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = [line.strip() for all_ in SAID.findall(code) for line in all_.split(" # ")]
    assert said, "the example says nothing"
    assert done.stdout.splitlines() == said
