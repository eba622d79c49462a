"""Building what is no script: where the programs that build it are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from trilane.lab.machine.host import Host
from trilane.lab.processes import launch
from trilane.lab.programs import builds


def test_a_program_where_system_programs_are_kept_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's PATH often lacks /usr/sbin, and Go is in none where it was just unpacked."""
    place = tmp_path / "sbin"
    place.mkdir()
    program = place / "build-for-trilane"
    program.write_text('#!/bin/sh\necho built > "$1/result"\n')
    program.chmod(0o755)
    sources = tmp_path / "sources"
    sources.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(builds.BuildFailed, match="build-for-trilane is not installed"):
        builds.built("made-up", sources, [[program.name, "{build}"]])
    monkeypatch.setattr(launch, "_MORE_PLACES", (str(place),))
    built = builds.built("made-up", sources, [[program.name, "{build}"]])
    assert (built / "result").read_text() == "built\n"
    assert Host().program(program.name) == str(program)
