"""Authentication by either client."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import httpx
import pytest
import requests
import requests.auth

from client.face import AnyClient, MakeClient
from trilane.client import BasicAuth, BearerAuth, DigestAuth, NetRCAuth, _digest
from trilane.client.auth import AuthGiven, RequestInfo
from trilane.client.fields import MutableHeaders

from .recorder import NO_TLS, Recorder


@pytest.fixture
def client(make_client: MakeClient) -> AnyClient:
    return make_client()


def _authorizations(recorder: Recorder) -> list[str | None]:
    return [each.field("authorization") for each in recorder.forget()]


def test_user_and_password_are_as_requests_and_httpx_send_them(
    client: AnyClient, recorder: Recorder
) -> None:
    url = f"{recorder.base}/"
    with requests.Session() as session:
        session.trust_env = False
        session.get(url, auth=("user", "pass:word"))
    httpx.get(url, auth=("user", "pass:word"), trust_env=False, verify=NO_TLS)
    client.get(url, auth=("user", "pass:word"))
    client.get(url, auth=BasicAuth("user", "pass:word"))
    client.get(url.replace("//", "//user:pass%3Aword@"))
    found = _authorizations(recorder)
    assert found == [found[0]] * 5
    assert str(found[0]).startswith("Basic ")


def _signed(request: RequestInfo) -> RequestInfo:
    request.headers["X-Signed"] = f"{request.method} {request.target}"
    request.headers["authorization"] = "own"
    return request


def test_ways_to_authenticate(make_client: MakeClient, recorder: Recorder) -> None:
    url = f"{recorder.base}/a?b=c"
    client = make_client(auth=BearerAuth("token"))
    client.get(url)
    client.get(url, auth=None)
    client.get(url, auth=_signed)
    # What is asked for wins over the field, as in both libraries.
    client.get(url, headers={"Authorization": "field"})
    client.get(url, headers={"Authorization": "field"}, auth=None)
    got = list(recorder.got)
    assert _authorizations(recorder) == ["Bearer token", None, "own", "Bearer token", "field"]
    assert got[2].field("x-signed") == "GET /a?b=c"


@pytest.mark.parametrize("given", ["user:password", 5, ("a", "b", "c"), BasicAuth])
def test_what_is_none(client: AnyClient, recorder: Recorder, given: AuthGiven) -> None:
    with pytest.raises(TypeError, match=r"give \(user, password\), BearerAuth"):
        client.get(recorder.base, auth=given)


@pytest.mark.parametrize("algorithm", ["MD5", "SHA-256", "MD5-sess", "SHA-256-sess"])
def test_digest(client: AnyClient, recorder: Recorder, algorithm: str) -> None:
    url = f"{recorder.base}/digest?algorithm={algorithm}"
    right = DigestAuth("Mufasa", "Circle of Life")
    # The server takes what the others send.
    theirs = httpx.get(
        url, auth=httpx.DigestAuth("Mufasa", "Circle of Life"), trust_env=False, verify=NO_TLS
    )
    assert theirs.status_code == 200
    if algorithm != "SHA-256-sess":  # Requests has none.
        with requests.Session() as session:
            session.trust_env = False
            auth = requests.auth.HTTPDigestAuth("Mufasa", "Circle of Life")
            assert session.get(url, auth=auth).status_code == 200
    recorder.forget()
    first = client.post(url, b"content", auth=right)
    assert (first.status, first.content) == (200, b"roar")
    assert [each.status for each in first.history] == [401]
    assert [each.body for each in recorder.forget()] == [b"content"] * 2
    # From then on it is sent at once, counted by the server's nonce.
    again = client.get(url, auth=right)
    assert (again.status, again.history) == (200, [])
    [got] = recorder.forget()
    assert "nc=00000002" in str(got.field("authorization"))


def test_a_wrong_password_ends(client: AnyClient, recorder: Recorder) -> None:
    wrong = DigestAuth("Mufasa", "hyena")
    url = f"{recorder.base}/digest"
    assert client.get(url, auth=wrong).status == 401
    assert len(recorder.forget()) == 2
    assert client.get(url, auth=wrong).status == 401
    assert len(recorder.forget()) == 1
    assert client.put(url, iter([b"x"]), auth=DigestAuth("Mufasa", "Circle of Life")).status == 401
    assert pickle.loads(pickle.dumps(wrong))._user == "Mufasa"  # noqa: S301


# RFC 7616 §3.9.1.
ANSWERS = {
    "MD5": "8ca523f5e9506fed4657c9700eebdbec",
    "SHA-256": "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
}


@pytest.mark.parametrize("algorithm", ANSWERS)
def test_the_example_of_the_rfc(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nonce = "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v"
    opaque = "FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"
    offer = 'Digest realm="http-auth@example.org", qop="auth, auth-int"'
    offer += f', algorithm={algorithm}, nonce="{nonce}", opaque="{opaque}"'
    challenges = [offer, 'Basic realm="other, one", charset="UTF-8"']
    cnonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
    monkeypatch.setattr(_digest, "_cnonce", lambda: cnonce)
    url = "http://www.example.org/dir/index.html"
    request = RequestInfo("GET", url, "/dir/index.html", MutableHeaders())
    assert DigestAuth("Mufasa", "Circle of Life").answer(challenges, request)
    assert f'response="{ANSWERS[algorithm]}"' in request.headers["authorization"]


@pytest.mark.parametrize("algorithm", ["MD5-sess", "SHA-256-sess"])
def test_sessions_as_httpx_hashes_for_them(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of the RFC have none."""
    url = "http://www.example.org/dir/index.html"
    offer = f'Digest realm="zoo", qop="auth", nonce="a:b", algorithm={algorithm}'
    cnonce = "0123456789abcdef"
    monkeypatch.setattr(_digest, "_cnonce", lambda: cnonce)
    monkeypatch.setattr(httpx.DigestAuth, "_get_client_nonce", lambda *_: cnonce.encode())
    flow = httpx.DigestAuth("Mufasa", "Circle of Life").sync_auth_flow(httpx.Request("GET", url))
    asked = next(flow)
    theirs = flow.send(httpx.Response(401, headers={"www-authenticate": offer}, request=asked))
    request = RequestInfo("GET", url, "/dir/index.html", MutableHeaders())
    assert DigestAuth("Mufasa", "Circle of Life").answer([offer], request)
    [response] = re.findall('response="[0-9a-f]+"', request.headers["authorization"])
    assert response in theirs.headers["authorization"]


@pytest.mark.parametrize(
    ("user", "charset", "said"),
    [
        ('a"b\\c', "", 'username="a\\"b\\\\c", realm="of \\"zoo\\"", '),
        # RFC 7616 §3.9.2; a server that does not say so may know no `username*`.
        ("J\xe4s\xf8n Doe", ", charset=UTF-8", "username*=UTF-8''J%C3%A4s%C3%B8n%20Doe, "),
        ("\u6bdb", "", 'username="\u6bdb", '),
    ],
)
def test_names_that_are_not_plain(
    client: AnyClient, recorder: Recorder, user: str, charset: str, said: str
) -> None:
    auth, request = DigestAuth(user, "x"), RequestInfo("GET", "http://a/", "/", MutableHeaders())
    offer = f'Digest realm="of \\"zoo\\"", nonce="n", qop="auth"{charset}'
    assert auth.answer([offer], request)
    client.get(f"{recorder.base}/", headers=request.headers.pairs)
    [sent] = _authorizations(recorder)
    assert said in str(sent).encode("latin-1").decode()


def test_the_strongest_that_is_known_is_taken() -> None:
    def offer(algorithm: str) -> str:
        return f'Digest realm="r", nonce="{algorithm}", algorithm={algorithm}'

    found = _digest.strongest([offer("MD5"), offer("SHA-256"), offer("SHA-3"), "Negotiate abc=="])
    assert found is not None
    assert found["nonce"] == "SHA-256"
    joined = ", ".join([offer("MD5"), 'Basic realm="a"', offer("SHA-512-256")])
    found = _digest.strongest([joined])
    assert found is not None
    assert found["nonce"] == "SHA-512-256"
    nothing = [
        "",
        "Digest",
        "Digest realm=",
        'Digest realm="r", nonce="n", qop="auth-int"',
        'Digest realm="r", nonce="n", algorithm=MD5-sess',
        "," * 99,
    ]
    assert _digest.strongest(nothing) is None
    assert _digest.strongest(["Digest " + 'a="\\' * 100_000]) is None


def test_netrc_only_where_it_is_asked_for(
    make_client: MakeClient, recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / ".netrc"
    file.write_text("machine 127.0.0.1 login user password pass\n")
    file.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(file))
    make_client().get(f"{recorder.base}/")
    make_client(auth=NetRCAuth()).get(f"{recorder.base}/")
    make_client(auth=NetRCAuth(file)).get(f"{recorder.other}/")
    with requests.Session() as session:
        session.get(f"{recorder.base}/")
    ours, asked, other, theirs = _authorizations(recorder)
    assert (ours, other) == (None, None)
    assert asked == theirs
    assert asked is not None
