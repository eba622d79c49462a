"""What maturin packs: the folders that ship with Trilane, and nothing that was made from them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from repository import ROOT

MATURIN = Path(sys.executable).with_name("maturin")


def test_maturin_packs_the_folders_as_trilane_share(tmp_path: Path) -> None:
    missing = [
        program
        for program, there in (
            ("cargo", shutil.which("cargo")),
            ("maturin", MATURIN.is_file()),
        )
        if not there
    ]
    if missing and os.environ.get("CI") != "true":
        pytest.skip(f"needs {' and '.join(missing)}")
    # A source archive takes the same patterns as a wheel and needs no compiler.
    done = subprocess.run(
        [MATURIN, "sdist", "--out", tmp_path, "--manifest-path", ROOT / "crates/python/Cargo.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    share = "python/trilane/share"
    assert f"{share}/experiments/bookstore.toml" in packed
    assert f"{share}/contenders/requests/contender.py" in packed
    assert f"{share}/contenders/harness/trilane_contender/__init__.py" in packed
    assert f"{share}/servers/twisted-bookstore/server.py" in packed
    assert "python/trilane/lab/experiment/templates/experiment.html.jinja" in packed
    left_out = ("__pycache__", "node_modules", "research")
    assert [name for name in packed if any(word in name for word in left_out)] == []
