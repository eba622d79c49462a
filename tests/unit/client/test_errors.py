"""Errors: what they inherit, and that they survive being copied."""

from __future__ import annotations

import copy
import copyreg
import http.client
import pickle
import signal
import socket
import ssl

import pytest
from tblib import pickling_support

from trilane._core import Decoder
from trilane.client import errors

KINDS = {
    "resolve": (errors.ResolveError, socket.gaierror),
    "refused": (errors.ConnectionRefused, ConnectionRefusedError),
    "connect": (errors.ConnectFailed, ConnectionError),
    "tls": (errors.TLSError, ssl.SSLError),
    "proxy": (errors.ProxyError, ConnectionError),
    "version": (errors.VersionUnavailable, ConnectionError),
    "connect_timeout": (errors.ConnectTimeout, TimeoutError),
    "read_timeout": (errors.ReadTimeout, TimeoutError),
    "write_timeout": (errors.WriteTimeout, TimeoutError),
    "closed": (errors.ConnectionClosed, http.client.RemoteDisconnected),
    "reset": (errors.StreamReset, ConnectionResetError),
    "goaway": (errors.GoAway, ConnectionResetError),
    "protocol": (errors.RemoteProtocolError, http.client.HTTPException),
    "limit": (errors.LimitExceeded, http.client.HTTPException),
    "body": (errors.IncompleteBody, http.client.IncompleteRead),
    "decoding": (errors.DecodingError, ValueError),
    "local": (errors.InvalidRequest, ValueError),
    "full": (errors.Full, errors.LocalError),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_an_error_and_what_others_catch(kind: str) -> None:
    ours, builtin = KINDS[kind]
    error = errors.of(kind, "it broke: mend it", 5, 7, True)
    assert type(error) is ours
    assert isinstance(error, errors.Error)
    assert isinstance(error, builtin)
    assert str(error) == "it broke: mend it"
    assert (error.stream_id, error.error_code, error.retryable) == (5, 7, True)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_can_be_copied_and_sent_to_another_process(kind: str) -> None:
    error = errors.of(kind, "it broke", 5, 7, True)
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert type(again) is type(error)
        assert repr(again) == repr(error)
        assert vars(again) == vars(error)


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_is_its_own_where_tblib_is_installed(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is in each process that has imported Dask."""
    error = errors.of(kind, "it broke", 5, 7, True)
    monkeypatch.setitem(copyreg.dispatch_table, type(error), pickling_support.pickle_exception)
    with pytest.raises(type(error)) as caught:
        raise error
    again = copy.copy(caught.value)
    assert vars(again) == vars(error)
    again.stream_id = 9
    assert error.stream_id == 5
    assert again.__traceback__ is None


def test_every_public_name_is_an_error() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), errors.Error)


def test_a_connect_timeout_is_a_timeout_and_a_failed_connection() -> None:
    assert issubclass(errors.ConnectTimeout, errors.ConnectFailed)
    assert issubclass(errors.ConnectTimeout, errors.Timeout)


def test_incomplete_content_says_what_is_there() -> None:
    error = errors.IncompleteBody("short", partial=b"abc", expected=4)
    assert (error.partial, error.expected) == (b"abc", 4)
    assert str(error) == "short"


def test_a_kind_that_is_not_known_is_a_plain_error() -> None:
    assert type(errors.of("new", "message")) is errors.Error


def test_ctrl_c_while_an_error_is_made_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(dict[str, type[errors.Error]]):
        def get(self, *_: object) -> None:  # type: ignore[override]
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(errors, "_KINDS", Interrupted())
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            Decoder(["no such coding"])
    finally:
        signal.signal(signal.SIGINT, before)
