"""What ships with Trilane is in the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from repository import ROOT
from trilane.lab.experiment import places


@pytest.mark.parametrize("name", ["experiments", "contenders", "servers"])
def test_a_checkout_ships_the_folders_at_its_root(name: str) -> None:
    assert places.shipped(name) == ROOT / name
    assert (ROOT / name).is_dir()


def test_folders_of_the_current_one_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "servers").mkdir()
    assert places.servers() == [tmp_path / "servers", ROOT / "servers"]
    assert places.contenders() == [ROOT / "contenders"]
    monkeypatch.chdir(ROOT)
    assert places.servers() == [ROOT / "servers"]
