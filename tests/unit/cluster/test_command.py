"""`trilane load --cluster`: which arguments are the cluster's, and which the load's."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from trilane import __main__ as entry
from trilane.cluster import command
from trilane.cluster.command import WrongUsage, divided
from trilane.cluster.connecting import ClusterFailed, parsed


def test_the_flags_of_the_cluster_are_taken_out_wherever_they_stand() -> None:
    asked = divided(
        [
            *("-R", "1m", "--cluster", "tcp://a:1", "--workers=4", "--worker-label", "x"),
            *("http://s/", "--worker-label=y", "-H", "a:b", "--cluster-tls-ca", "ca.pem"),
        ]
    )
    assert asked.load == ["-R", "1m", "http://s/", "-H", "a:b"]
    assert asked.given == {
        "--cluster": ["tcp://a:1"],
        "--workers": ["4"],
        "--worker-label": ["x", "y"],
        "--cluster-tls-ca": ["ca.pem"],
    }


def test_what_follows_two_dashes_is_the_loads() -> None:
    asked = divided(["--cluster", "a", "--compat", "wrk", "--", "--workers", "4"])
    assert asked.load == ["--compat", "wrk", "--", "--workers", "4"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cluster"], "--cluster takes the address of a scheduler, such as tls://host:8786"),
        (["--cluster", "a", "--cluster", "b"], "--cluster is given twice: a and b"),
        (["--cluster", "a", "--workers="], "--workers takes a whole number from 1 on"),
    ],
)
def test_a_flag_without_its_value_is_named(arguments: list[str], message: str) -> None:
    with pytest.raises(WrongUsage, match=message):
        divided(arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "0"], "--workers takes a whole number from 1 on, at most 65535, not '0'"),
        (["--workers", "many"], "--workers takes a whole number from 1 on"),
        (["--cluster-clock-port", "70000"], "--cluster-clock-port takes a UDP port"),
        (["--cluster-tls-ca", "ca.pem"], "--cluster-tls-key go together, and only"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.load(["--cluster", "tcp://127.0.0.1:1", *arguments, "http://s/"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert message in said[0]
    assert said[1:] == ["try: trilane load --help"]


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ("tcp://host:8786", "tcp://host:8786"),
        ("host", "tcp://host:8786"),
        ("host:99", "tcp://host:99"),
        ("tls://host", "tls://host:8786"),
        ("tcp://[::1]:99", "tcp://[::1]:99"),
    ],
)
def test_an_address_is_understood_as_typed(typed: str, address: str) -> None:
    assert parsed(typed, tls=False) == address


def test_with_certificates_an_address_means_tls() -> None:
    assert parsed("host", tls=True) == "tls://host:8786"
    with pytest.raises(ClusterFailed, match="is not tls://"):
        parsed("tcp://host", tls=True)


@pytest.mark.parametrize("typed", ["http://host:1", "", "tcp://", "tcp://host:x", "tcp://a/b"])
def test_what_is_no_address_is_wrong_usage(typed: str) -> None:
    with pytest.raises(ClusterFailed, match="is not the address of a scheduler") as failed:
        parsed(typed, tls=False)
    assert failed.value.code == 2


def test_without_dask_one_line_says_what_to_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "distributed" else find(name)
    )
    monkeypatch.setattr(sys, "argv", ["trilane", "load", "--cluster=tcp://a:1", "http://s/"])
    assert entry.main() == 1
    assert capsys.readouterr().err == (
        "trilane load: error: `--cluster` needs distributed: type: pip install 'trilane[cluster]'\n"
    )
