"""An `ssl.SSLContext` is obeyed or refused: what it forbids is not done."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from trilane._core import Tls
from trilane.client.errors import TLSError
from trilane.client.http._dial import needs_openssl
from trilane.client.tls import tls_of
from unit.client.certificates import CURRENT, EXPIRED, PINNED

# Python would rather have versions excluded by `minimum_version`, and says so.
pytestmark = pytest.mark.filterwarnings("ignore:ssl.OP_NO_:DeprecationWarning")


def _plain(_context: ssl.SSLContext) -> None:
    pass


def _with(**settings: object) -> Callable[[ssl.SSLContext], None]:
    def change(context: ssl.SSLContext) -> None:
        for name, value in settings.items():
            setattr(context, name, value)

    return change


def _without(option: ssl.Options) -> Callable[[ssl.SSLContext], None]:
    def change(context: ssl.SSLContext) -> None:
        context.options |= option

    return change


def _ciphers(names: str) -> Callable[[ssl.SSLContext], None]:
    return lambda context: context.set_ciphers(names)


REFUSED = [
    (_with(maximum_version=ssl.TLSVersion.TLSv1_2), r"maximum_version=TLSv1_2.*TLS 1\.3"),
    (_without(ssl.OP_NO_TLSv1_3), r"OP_NO_TLSv1_3.*TLS 1\.3"),
    (_ciphers("ECDHE+AESGCM"), r"set_ciphers.*ECDHE-RSA-CHACHA20-POLY1305"),
    (_ciphers("ALL:@SECLEVEL=5"), r"security_level=5"),
]
REFUSED_WHERE_VERIFIED = [
    (_with(verify_flags=ssl.VERIFY_CRL_CHECK_LEAF), r"verify_flags.*VERIFY_CRL_CHECK_LEAF"),
    (_with(verify_flags=ssl.VERIFY_CRL_CHECK_CHAIN), r"verify_flags.*VERIFY_CRL_CHECK_CHAIN"),
]
OBEYED = [
    _plain,
    _with(minimum_version=ssl.TLSVersion.MINIMUM_SUPPORTED),
    _with(minimum_version=ssl.TLSVersion.TLSv1_2, maximum_version=ssl.TLSVersion.TLSv1_3),
    _with(verify_flags=ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN),
    _ciphers("ECDHE+AESGCM:ECDHE+CHACHA20"),
    _ciphers("ALL:@SECLEVEL=1"),
]


@pytest.mark.parametrize(("change", "told"), [*REFUSED, *REFUSED_WHERE_VERIFIED])
def test_what_cannot_be_obeyed_is_refused(
    change: Callable[[ssl.SSLContext], None], told: str
) -> None:
    context = ssl.create_default_context()
    change(context)
    with pytest.raises(TLSError, match=rf"the SSLContext has .*{told}.*HTTPSConnection"):
        tls_of(context)


@pytest.mark.parametrize(("change", "told"), REFUSED)
def test_it_is_refused_where_nothing_is_verified(
    change: Callable[[ssl.SSLContext], None], told: str
) -> None:
    context = _careless()
    change(context)
    with pytest.raises(TLSError, match=told):
        tls_of(context)


@pytest.mark.parametrize("change", [change for change, _ in REFUSED])
def test_the_shape_of_http_client_leaves_it_to_openssl(
    change: Callable[[ssl.SSLContext], None],
) -> None:
    context = _careless()
    assert not needs_openssl(context)
    change(context)
    assert needs_openssl(context)


@pytest.mark.parametrize("change", OBEYED)
def test_what_is_done_anyway_is_taken(change: Callable[[ssl.SSLContext], None]) -> None:
    context = _trusting()
    change(context)
    assert tls_of(context) is tls_of(_trusting())


def _trusting() -> ssl.SSLContext:
    """It trusts one authority."""
    return ssl.create_default_context(cadata=CURRENT)


def _careless() -> ssl.SSLContext:
    """It verifies nothing."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def test_what_is_not_verified_has_no_revocation_lists() -> None:
    context = _careless()
    context.verify_flags = ssl.VERIFY_CRL_CHECK_CHAIN
    assert tls_of(context) is tls_of(False)


@pytest.mark.parametrize(
    "change", [_with(minimum_version=ssl.TLSVersion.TLSv1_3), _without(ssl.OP_NO_TLSv1_2)]
)
def test_a_context_may_have_tls_1_3_alone(change: Callable[[ssl.SSLContext], None]) -> None:
    context = _careless()
    change(context)
    assert tls_of(context) is tls_of(False, tls13_only=True)
    assert tls_of(context) is not tls_of(False)


def test_every_setting_is_named_at_once() -> None:
    context = ssl.create_default_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    with pytest.raises(TLSError, match=r"maximum_version=TLSv1_2.*VERIFY_CRL_CHECK_LEAF"):
        tls_of(context)


def test_a_context_for_servers_is_refused() -> None:
    """It verifies nobody, as a server does by default."""
    with pytest.raises(TLSError, match="PROTOCOL_TLS_SERVER"):
        tls_of(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


@pytest.mark.filterwarnings("ignore:ssl.PROTOCOL_TLSv1_2:DeprecationWarning")
def test_a_context_for_one_version_is_refused() -> None:
    with pytest.raises(TLSError, match=r"PROTOCOL_TLSv1_2.*TLS 1\.3"):
        tls_of(ssl.SSLContext(ssl.PROTOCOL_TLSv1_2))


def test_a_certificate_that_is_no_authority_is_not_replaced_by_the_platforms() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=PINNED)
    with pytest.raises(TLSError, match=r"1 certificate.*of no authority.*HTTPSConnection"):
        tls_of(context)


def test_an_authority_that_expired_is_only_one_of_a_contexts() -> None:
    """Platforms have some: `ssl.create_default_context()` holds them too."""
    tls_of(ssl.create_default_context(cadata=EXPIRED + CURRENT))
    with pytest.raises(TLSError, match="the SSLContext expired on 2020-01-31"):
        tls_of(ssl.create_default_context(cadata=EXPIRED))


def test_certificates_show_what_they_are(tmp_path: Path) -> None:
    assert repr(tls_of()) == "<trilane._core.Tls trusts the platform's authorities>"
    file = tmp_path / "ca.pem"
    file.write_text(CURRENT)
    pins = ((None, bytes(32)), ("a", bytes(32)))
    shown = repr(tls_of(file, None, pins, tls13_only=True))
    assert shown == f"<trilane._core.Tls trusts {file}; 2 pins; TLS 1.3 alone>"
    assert repr(tls_of(False)) == "<trilane._core.Tls trusts any server>"
    content = CURRENT.encode()
    many = Tls(authorities=[(f"{number}.pem", content) for number in range(5)], platform=False)
    assert repr(many) == "<trilane._core.Tls trusts 0.pem, 1.pem, 2.pem and 2 more>"
