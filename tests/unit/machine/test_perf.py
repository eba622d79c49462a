"""Profiles: what `perf script` of perf 6.1 printed (paths aside), and why there may be none."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilane.lab.machine import perf
from trilane.lab.model.profile import Frame

FILE = Path(__file__).parent / "files" / "perf-script.txt"
SERVER, CLIENT = 7156, 7310


def real() -> list[perf.Stack]:
    return perf.parsed(FILE.read_text(encoding="utf-8"))


def test_samples_of_perf_are_read_whole() -> None:
    found = real()
    assert len(found) == 29
    assert [stack.pid for stack in found].count(SERVER) == 14
    assert {stack.pid for stack in found} == {SERVER, CLIENT}
    # The outermost first; what unwinding lost itself in is left out.
    assert found[0].functions == (
        ("<trilane_cli::load::LoadArgs as clap_builder::derive::Args>::augment_args", "program"),
        ("__memmove_avx512_unaligned_erms", "library"),
    )
    assert found[1].functions[-1] == ("__cond_resched", "kernel")


@pytest.mark.parametrize(
    ("line", "function"),
    [
        ("  1f a (b) c (/usr/bin/x y)", ("a (b) c", "program")),
        ("  1f [unknown] (/usr/lib/libc.so.6)", ("[libc.so.6]", "library")),
        ("  1f [unknown] ([vdso])", ("[vdso]", "library")),
        ("  1f sym ([nf_tables])", ("sym", "program")),
        ("  1f sym (/lib/modules/6.1/nf_tables.ko)", ("sym", "kernel")),
        ("  1f sym ([kernel.kallsyms])", ("sym", "kernel")),
        ("  1f [unknown] ([unknown])", None),
        ("  1f no file", None),
    ],
)
def test_each_kind_of_code_is_told_apart(line: str, function: tuple[str, str] | None) -> None:
    found = perf.parsed(f"a b 12/13\n{line}\n")
    assert [stack.functions for stack in found] == ([(function,)] if function else [])


def test_functions_without_names_that_call_each_other_are_one() -> None:
    (stack,) = perf.parsed("x 1/1\n 1 [unknown] (/a.so)\n 2 [unknown] (/a.so)\n 3 main (/x)\n")
    assert stack.functions == (("main", "program"), ("[a.so]", "library"))


@given(st.text())
def test_nothing_that_perf_may_print_is_an_error(text: str) -> None:
    perf.frames(perf.parsed(text))


def test_a_sample_that_was_cut_short_costs_no_other() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert perf.parsed(text[:-200])[:-1] == real()[:-1]


def test_frames_lie_within_their_callers_and_not_on_each_other() -> None:
    stacks = real()
    found = perf.frames(stacks)
    above: list[Frame] = []
    for frame in found:
        above = above[: frame.depth]
        assert len(above) == frame.depth
        start, end = (above[-1].start, above[-1].start + above[-1].samples) if above else (0, 29)
        assert start <= frame.start
        assert frame.start + frame.samples <= end
        above.append(frame)
    outermost = [frame for frame in found if frame.depth == 0]
    assert sum(frame.samples for frame in outermost) == len(stacks)
    for left, right in pairwise(outermost):
        assert left.start + left.samples == right.start


def test_rare_functions_are_left_out_and_their_room_stays() -> None:
    stacks = [perf.Stack(1, (("a", "program"),))] + [perf.Stack(1, (("b", "program"),))] * 999
    assert perf.frames(stacks) == [Frame(name="b", code="program", depth=0, start=1, samples=999)]


def test_where_perf_may_not_sample_the_way_out_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = tmp_path / "proc" / "sys" / "kernel" / "perf_event_paranoid"
    monkeypatch.setattr(perf, "find_program", lambda _: None)
    assert "apt-get install" in str(perf.refusal(tmp_path, is_root=False))
    monkeypatch.setattr(perf, "find_program", lambda name: f"/usr/bin/{name}")
    assert perf.refusal(tmp_path, is_root=True) == "this kernel has no perf events"
    setting.parent.mkdir(parents=True)
    setting.write_text("4\n", encoding="ascii")
    assert "sudo sysctl kernel.perf_event_paranoid=1" in str(perf.refusal(tmp_path, is_root=False))
    assert perf.refusal(tmp_path, is_root=True) is None
    setting.write_text("2\n", encoding="ascii")
    assert perf.refusal(tmp_path, is_root=False) is None
