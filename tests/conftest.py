"""What tests of more than one folder share: signals as a terminal has them, schemas, servers."""

from __future__ import annotations

import gc
import json
import signal
import ssl
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import hypothesis
import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from others import Left
from peers import grpc_schema
from peers.authority import Authority, Leaf
from peers.peer import Peer
from peers.process import MissingProgramError
from peers.running import Peers, absent
from repository import DOCS, ROOT
from took import Took

Own: TypeAlias = Callable[[Callable[[Path], Peer]], Peer]

# Files with tests that take ten seconds and more.
LONGEST = (
    "research/test_research.py",
    *(
        f"tests/lab/{name}.py"
        for name in (
            *("test_printed_commands", "test_networks", "test_ab", "test_cluster"),
            *("test_cluster_experiments", "test_browser", "servers/test_every_server"),
            *("servers/test_transcoding", "servers/test_openapi"),
        )
    ),
)

# The same examples in every run, however slow the machine: a change is what turns a test red, not
# chance. Without a database, no run depends on the runs before it. What Hypothesis calls too slow
# goes by the clock.
hypothesis.settings.register_profile(
    "trilane",
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("trilane")


def pytest_configure(config: pytest.Config) -> None:
    """Take SIGINT as at a terminal, whoever started the tests.

    A script's background job is started with SIGINT ignored, and what ignores it hands that down
    to every process it starts (POSIX shell, 2.11).
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(Left())
    # Processes of pytest-xdist hand their reports to the one that shows them.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Took())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest: what is left at the end is short, and no process waits long."""
    assert all((ROOT / name).is_file() for name in LONGEST)
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from what stays to the end, thousands of tests among it.

    Whoever collects garbage to see what is left would go through all of it, each time.
    """
    gc.disable()
    found = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    return found


@pytest.fixture(autouse=True)
def _ctrl_c_as_before() -> Iterator[None]:
    """A command that a test runs in this process leaves SIGINT to the kernel, for good."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of whoever runs the tests is not part of them."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="session")
def comparison_schema() -> Draft202012Validator:
    return _validator("comparison.schema.json")


@pytest.fixture(scope="session")
def lab_schema() -> Draft202012Validator:
    return _validator("lab.schema.json")


@pytest.fixture(scope="session")
def search_schema() -> Draft202012Validator:
    return _validator("search.schema.json")


def _validator(name: str) -> Draft202012Validator:
    schemas = {
        path.name: json.loads(path.read_text(encoding="utf-8"))
        for path in DOCS.glob("*.schema.json")
    }
    registry: Registry[Any] = Registry().with_resources(
        (schema["$id"], Resource.from_contents(schema)) for schema in schemas.values()
    )
    Draft202012Validator.check_schema(schemas[name])
    return Draft202012Validator(schemas[name], registry=registry)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The private authority that every peer but the embedded server is certified by."""
    try:
        return Authority(tmp_path_factory.mktemp("authority"))
    except MissingProgramError as error:
        absent(error)


@pytest.fixture(scope="session")
def leaf(authority: Authority) -> Leaf:
    return authority.local()


@pytest.fixture(scope="session")
def security(leaf: Leaf) -> ssl.SSLContext:
    """For servers of the tests' own; they speak HTTP/2 only where they say so by ALPN."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(leaf.cert, leaf.key)
    return context


@pytest.fixture(scope="session")
def peers(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Peers]:
    """The peers, started as they are asked for, the same ones for all tests."""
    running = Peers(tmp_path_factory.mktemp("peers"), authority)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Own]:
    """Start a peer for one test alone: one that is killed, or configured in a special way."""
    running: list[Peer] = []

    def start(make: Callable[[Path], Peer]) -> Peer:
        try:
            peer = make(tmp_path / f"peer-{len(running)}")
        except MissingProgramError as error:
            absent(error)
        running.append(peer)
        return peer

    yield start
    for peer in running:
        # A server that is asked to end may wait for its clients.
        peer.process.kill()


@pytest.fixture(scope="session")
def descriptor_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library's file descriptor set, by Google's protoc."""
    return grpc_schema.compile_set(tmp_path_factory.mktemp("schema") / "library.pb")


@pytest.fixture(scope="session")
def schema(descriptor_set: Path) -> grpc_schema.Schema:
    """The library's messages, by Google's protoc."""
    return grpc_schema.Schema(descriptor_set)
