"""gRPC's interoperability tests: grpc-go's client and server, with the gateway between."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from others import others
from peers import embedded, interop
from peers.peer import Peer
from peers.process import MissingProgramError
from peers.running import Peers, absent
from repository import native

from .library import PATIENCE_S
from .web import JSON, Web

# All that the client has, but those that need an account at Google (`*_creds`, `*_credentials`,
# `oauth2_auth_token`), several servers of one name (`pick_first_unary`), or another service, which
# the server has for a report out of band (`orca_oob`).
CASES = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
    "orca_per_rpc",
    "rpc_soak",
    "channel_soak",
]
# What stays in `make test`: a call of each kind, its end and its metadata.
FEW = {
    *("large_unary", "client_streaming", "server_streaming", "ping_pong"),
    *("cancel_after_begin", "status_code_and_message", "custom_metadata", "unimplemented_method"),
}
# What grpc-go's own script has for the reports of load (orca).
BALANCING = '{"loadBalancingConfig": [{"test_backend_metrics_load_balancer": {}}]}'


@pytest.fixture(scope="module")
def gateway(peers: Peers, tmp_path_factory: pytest.TempPathFactory) -> Peer:
    folder = tmp_path_factory.mktemp("interop")
    upstream = peers["interop"].bases["h2c"]
    try:
        flags = ("--descriptor-set", str(interop.schema(folder)))
    except MissingProgramError as error:
        absent(error)
    return embedded.start(native(), folder, gateway_to=[upstream], flags=flags)


@pytest.fixture(scope="module", autouse=True)
def _gateway_ends(gateway: Peer) -> Iterator[None]:
    yield
    gateway.stop()


@pytest.mark.parametrize(
    ("listener", "case"),
    [
        pytest.param(listener, case, marks=[] if listener == "h2" and case in FEW else [others])
        for listener in ("h2c", "h2")
        for case in CASES
    ],
)
def test_a_case(gateway: Peer, listener: str, case: str) -> None:
    where = urlsplit(gateway.bases[listener])
    command = [interop.client(), "-server_host", str(where.hostname), "-test_case", case]
    command += ["-server_port", str(where.port), "-service_config_json", BALANCING]
    # Limits that only end a hang.
    command += ["-soak_overall_timeout_seconds", "60"]
    command += ["-soak_per_iteration_max_acceptable_latency_ms", "60000"]
    if listener == "h2":
        command += ["-use_tls", "-use_test_ca", "-ca_file", str(gateway.ca)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE_S * 2
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("listener", ["h1", "h2c", "h2", "h3"])
def test_the_same_service_by_connect(gateway: Peer, listener: str) -> None:
    with Web.open(gateway, listener) as web:
        path = f"/{interop.SERVICE}/UnaryCall"
        version = {"connect_protocol_version": "1"}
        content = b'{"responseSize": 3}'
        answer = web.ask("POST", path, content, content_type=JSON, **version)
        assert (answer.status, json.loads(answer.content)) == (200, {"payload": {"body": "AAAA"}})
        content = json.dumps({"responseStatus": {"code": 2, "message": "\t\ntest ☺"}}).encode()
        answer = web.ask("POST", path, content, content_type=JSON, **version)
        assert answer.status == 500
        assert json.loads(answer.content) == {"code": "unknown", "message": "\t\ntest ☺"}
        echoed = {"x_grpc_test_echo_initial": "first", "x_grpc_test_echo_trailing_bin": "q6ur"}
        answer = web.ask("POST", path, b"{}", content_type=JSON, **version, **echoed)
        assert answer.fields["x-grpc-test-echo-initial"] == "first"
        assert answer.fields["trailer-x-grpc-test-echo-trailing-bin"] == "q6ur"
        answer = web.ask(
            "POST", f"/{interop.SERVICE}/UnimplementedCall", b"", content_type=JSON, **version
        )
        assert answer.status == 501
