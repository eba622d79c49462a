"""The SDKs of OpenAI and of Anthropic over our transports, against a server of the tests' own."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from client.environments import LIMIT_S, interpreter
from others import others
from peers import models
from peers.authority import Leaf
from repository import DOCS, ROOT

SCRIPT = Path(__file__).resolve().parent / "sdk_script.py"
PAGE = DOCS / "client" / "sdks.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAID = re.compile(r"print\(.*?\)  # (.*)")
EXAMPLES = BLOCK.findall(PAGE.read_text("utf-8"))


class Place(NamedTuple):
    base: str
    environment: dict[str, str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, leaf: Leaf) -> Iterator[Place]:
    """Where the server is, and the variables by which the SDKs find it, and trust it."""
    folder = tmp_path_factory.mktemp("models")
    with models.serving(folder, leaf) as base:
        settings = {
            "ANTHROPIC_API_KEY": models.ANTHROPIC_KEY,
            "ANTHROPIC_BASE_URL": base,
            "OPENAI_API_KEY": models.OPENAI_KEY,
            "OPENAI_BASE_URL": f"{base}/v1",
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "python", ROOT / "tests"))),
            "SSL_CERT_FILE": str(leaf.ca),
        }
        # What whoever runs the tests has set for the SDKs is not part of them.
        others = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("ANTHROPIC_", "OPENAI_"))
        }
        yield Place(base, others | settings)


# What stays in `make test`: the examples, below.
@others
@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("version", ["h1", "h2", "h3"])
def test_both_sdks_do_what_they_do(place: Place, version: str) -> None:
    done = subprocess.run(
        [interpreter(SCRIPT), SCRIPT, place.base, version],
        env=place.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(version)


@pytest.mark.timeout(LIMIT_S)
def test_the_examples_of_the_page_do_what_they_say(place: Place) -> None:
    # One after the other in one process: to import the SDKs takes seconds.
    run = "import sys\nfor code in sys.argv[1:]: exec(code, {'__name__': '__main__'})"
    done = subprocess.run(
        [interpreter(SCRIPT), "-c", run, *EXAMPLES],
        env=place.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = [SAID.findall(code) for code in EXAMPLES]
    assert len(said) >= 3
    assert all(said), "an example says nothing"
    assert done.stdout.splitlines() == [line for lines in said for line in lines]
