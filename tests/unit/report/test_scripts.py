"""The script that draws charts is put together once, and kept where it can be."""

from __future__ import annotations

from pathlib import Path

import pytest
import vl_convert

from trilane.report import scripts


@pytest.fixture
def bundled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The Vega-Lite releases that a script was put together for."""
    made: list[str] = []

    def bundle(*, vl_version: str) -> str:
        made.append(vl_version)
        return "draw()"

    monkeypatch.setattr(vl_convert, "javascript_bundle", bundle)
    return made


@pytest.mark.parametrize(("folder", "times"), [("cache", 1), ("file", 2)])
def test_it_is_put_together_once_where_it_can_be_kept(
    folder: str, times: int, bundled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where a file stands no folder can be made, not even by root.
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / folder))
    assert [scripts.vega(), scripts.vega()] == ["draw()", "draw()"]
    assert len(bundled) == times


def test_another_release_has_its_own(
    bundled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    scripts.vega()
    monkeypatch.setattr("altair.SCHEMA_VERSION", "v7.2.1")
    scripts.vega()
    assert bundled[1:] == ["v7.2"]
