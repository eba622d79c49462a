"""The examples of README, docs/index.md and docs/client run, say what they say, and pass mypy."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from peers import embedded
from peers.peer import Peer
from repository import DOCS, ROOT, native

DOCUMENTS = DOCS / "client"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAID = re.compile(r"print\(.*?\)  # (.*)")

EXAMPLES = {
    f"{document.stem.replace('-', '_')}_{number}": code
    for document in (DOCS / "index.md", *sorted(DOCUMENTS.glob("*.md")))
    # Those of sdks.md need packages that the others do without: client/sdks runs them.
    if document.stem != "sdks"
    for number, code in enumerate(BLOCK.findall(document.read_text("utf-8")), 1)
}
# Any server stands in README's, with a certificate that everybody trusts.
EXAMPLES["front_page"] = (
    BLOCK.findall((ROOT / "README.md").read_text("utf-8"))[0]
    .replace("https://your.server/path", "https://localhost:8443/hello")
    .replace("Client()", 'Client(verify="ca.pem")')
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """The embedded server, all versions."""
    folder = tmp_path_factory.mktemp("embedded")
    # It stands for the servers of the examples, whatever their names.
    peer = embedded.start(native(), folder, flags=("--allow-host", "*"))
    yield peer
    peer.stop()


def test_every_surface_has_an_example() -> None:
    surfaces = {name.rpartition("_")[0] for name in EXAMPLES}
    assert surfaces >= {"asyncio", "client", "errors", "http_client", "httpx", "requests"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_does_what_it_says(
    name: str,
    server: Peer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = EXAMPLES[name]
    assert server.ca is not None
    (tmp_path / "ca.pem").write_bytes(server.ca.read_bytes())
    monkeypatch.chdir(tmp_path)
    for listener, port in (("h1", "8080"), ("h2", "8443")):
        code = code.replace(port, str(urlsplit(server.bases[listener]).port))
    exec(compile(code, name, "exec"), {"__name__": "__main__"})  # noqa: S102 - it is ours
    said = [line.strip() for all_ in SAID.findall(code) for line in all_.split(" # ")]
    assert said, "the example says nothing"
    assert capsys.readouterr() == ("\n".join(said) + "\n", "")


# Each line would be warned about if it were right.
MISSPELT = """
import trilane
from trilane.client import AsyncClient, Client, Clinet, errors  # type: ignore[attr-defined]
from trilane.client.hyper import HTTP20Conection  # type: ignore[attr-defined]

trilane.verson  # type: ignore[attr-defined]
errors.TimeOut  # type: ignore[attr-defined]

def in_a_thread(client: Client) -> None:
    response = client.get("http://localhost/")
    response.staus  # type: ignore[attr-defined]
    client.get_al([])  # type: ignore[attr-defined]
    client.base_ur = ""  # type: ignore[attr-defined]

async def in_a_task(client: AsyncClient) -> None:
    response = await client.get("http://localhost/")
    response.iter_bytes  # type: ignore[attr-defined]
    client.get_all([])  # type: ignore[attr-defined]
"""


def test_the_examples_are_typed_and_what_is_misspelt_is_not(tmp_path: Path) -> None:
    (tmp_path / "misspelt.py").write_text(MISSPELT)
    for name, code in EXAMPLES.items():
        (tmp_path / f"{name}.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", ROOT / "build" / "mypy", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
