"""The examples of docs/client hold under mypy in its strict mode, as a reader's own code would."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DOCUMENTS = Path(__file__).parents[2] / "docs" / "client"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_examples_are_typed(tmp_path: Path) -> None:
    count = 0
    for document in sorted(DOCUMENTS.glob("*.md")):
        for number, block in enumerate(BLOCK.findall(document.read_text())):
            name = f"{document.stem.replace('-', '_')}_{number}.py"
            # HTTPX's fork has the interface of HTTPX, and only one of them is installed here.
            (tmp_path / name).write_text(block.replace("httpx2", "httpx"))
            count += 1
    assert count >= 10
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
