"""The example of the adapter's page runs, and prints what it says in its comment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from trilane.lab.serving.servers import Server

PAGE = Path(__file__).resolve().parents[3] / "docs" / "client" / "requests.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_example_runs(server: Server, tmp_path: Path) -> None:
    (code,) = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    (tmp_path / "ca.pem").write_bytes(Path(server.cacert).read_bytes())
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            code.replace("8443", str(urlsplit(server.https).port)),
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (said,) = re.findall(r"\)  # (.*)", code)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", f"{said}\n")
