"""The transports for HTTPX and HTTPX2."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import tomllib
from pathlib import Path

import httpx
import pytest

from client.environments import LIMIT_S, check_against, interpreter, suite
from others import others
from peers.authority import Leaf
from peers.held import CALLS, Held
from peers.peer import Peer
from peers.pproxy import Proxy
from repository import ROOT
from trilane.client import httpx as ours
from trilane.lab.storage import store
from trilane.lab.storage.store import locked

from . import httpx_checks

HERE = Path(__file__).resolve().parent
# Of the cases of HTTPX 0.28.1, of which most need no transport.
LEAST_PASSED = {"few": 90, "all": 1300}
LEAST_RESPONSES = {"few": 50, "all": 50}


# Both speak HTTP/2 under HTTPX2, below, and HTTP/1.1 in the cases of HTTPX.
def test_a_client_of_httpx(server: Peer) -> None:
    httpx_checks.blocking(httpx, ours, server.bases["h2"], str(server.ca), "h3")


def test_an_asynchronous_client_of_httpx(server: Peer) -> None:
    asyncio.run(httpx_checks.asynchronous(httpx, ours, server.bases["h2"], str(server.ca), "h3"))


@pytest.mark.parametrize("version", ["h1", "h2", "h3"])
def test_the_extension_trace(server: Peer, version: str) -> None:
    httpx_checks.traced(httpx, ours, server.bases["h2"], str(server.ca), version)


def test_the_extension_sni_hostname(server: Peer) -> None:
    httpx_checks.names(httpx, ours, server.bases["h2"], str(server.ca))


def test_settings_of_our_client(server: Peer) -> None:
    httpx_checks.settings(httpx, ours, server.bases["h2"], str(server.ca))


def test_other_transports_beside_ours(server: Peer) -> None:
    httpx_checks.beside(httpx, ours, server.bases["h2"], str(server.ca))


def test_long_calls_are_all_under_way(holding: Held) -> None:
    httpx_checks.long_calls(httpx, ours, holding.url, holding.ca, CALLS["h2"])


def test_what_httpx_makes_of_responses() -> None:
    httpx_checks.details(httpx, ours)


def test_exceptions_are_those_of_httpx(server: Peer) -> None:
    httpx_checks.failures(httpx, ours, server.bases["h2"], str(server.ca))


def test_a_proxy_is_asked_for_a_tunnel(server: Peer) -> None:
    httpx_checks.proxied(httpx, ours, server.bases["h2"], str(server.ca))


def test_socks_and_proxies_behind_tls(server: Peer, tmp_path: Path, leaf: Leaf) -> None:
    assert server.ca is not None
    bundle = server.ca.read_text() + leaf.ca.read_text()
    with (
        Proxy(tmp_path / "socks", "socks5", user="me:secret") as socks,
        Proxy(tmp_path / "tls", "http+ssl", leaf=leaf) as tls,
    ):
        place = f"socks5h://localhost:{socks.port}"
        for proxy in (
            place.replace("://", "://me:secret@"),
            httpx.Proxy(place, auth=("me", "secret")),
            f"https://localhost:{tls.port}",
        ):
            transport = ours.Transport(bundle, proxy=proxy)
            with httpx.Client(transport=transport, timeout=120.0) as client:
                assert client.get(server.url("h2")).http_version == "HTTP/2"
                assert client.get(server.url("h1")).text == "hello world"
    with pytest.raises(ValueError, match="ssl_context"):
        ours.Transport(proxy=httpx.Proxy("https://p", ssl_context=ssl.create_default_context()))


@pytest.mark.timeout(LIMIT_S)
def test_the_same_under_httpx2(server: Peer) -> None:
    script = HERE / "httpx2_script.py"
    path = os.pathsep.join(map(str, (ROOT / "python", ROOT / "tests")))
    done = subprocess.run(
        [
            interpreter(script),
            "-W",
            "error",
            "-W",
            "ignore:verify=False",
            script,
            server.bases["h2"],
            str(server.ca),
        ],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "did everything" in done.stdout


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("cases", ["few", pytest.param("all", marks=others)])
def test_what_differs_under_httpx_is_in_the_table(tmp_path: Path, cases: str) -> None:
    few = cases == "few"
    # HTTPX2 publishes no tests: those of HTTPX, with another name in them, are the same twice.
    for library in ("httpx",) if few else ("httpx", "httpx2"):
        table = tomllib.loads((HERE / f"{library}_differences.toml").read_text(encoding="utf-8"))
        # The servers of the suite have a port of their own, and cannot run twice at a time.
        with locked(store.cache_folder() / "httpx.lock"):
            outcome = suite(
                HERE / f"{library}_suite.py", tmp_path, "httpx", *(["--few"] if few else [])
            )
        check_against(table, outcome, few=few)
        assert len(outcome.those("passed")) >= LEAST_PASSED[cases]
        assert outcome.versions["HTTP/1.1"] > LEAST_RESPONSES[cases]
