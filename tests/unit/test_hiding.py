"""Secrets that other users of the machine would see in the command lines of processes."""

from __future__ import annotations

from pathlib import Path

from trilane import hiding


def test_secret_fields_stand_in_a_file_of_their_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "fields"
    words = [
        *("-c", "1", "-H", "accept: a", "--header=x-api-key: b", "-HAuthorization: Bearer c"),
        *("--header", "cookie: d=${OF}", "-H", "@own", "-H", "x-token: e\nf"),
        *("-kHx-token: g", "-kH", "x-token: \udcff", "-H"),
    ]
    assert hiding.aside(words, file) == [
        *("-c", "1", "-H", "accept: a", "-H", f"@{file}", "-H", "cookie: d=${OF}"),
        *("-H", "@own", "-H", "x-token: e\nf", "-k", "-k", "-H"),
    ]
    fields = b"x-api-key: b\nAuthorization: Bearer c\nx-token: g\nx-token: \xff\n"
    assert file.read_bytes() == fields
    assert file.stat().st_mode & 0o777 == 0o600


def test_what_has_no_secrets_needs_no_file(tmp_path: Path) -> None:
    words = ["-H", "accept: a", "--compat", "hey", "--", "-H", "x-token: of another command"]
    assert hiding.aside(words, tmp_path / "fields") == words
    assert not list(tmp_path.iterdir())


def test_what_is_no_text_is_shown_by_a_stand_in() -> None:
    assert hiding.text("x: \udcff") == "x: \ufffd"
