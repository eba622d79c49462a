"""`trilane lab list` and `trilane lab show`, as a user meets them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lab.typed import trilane
from synthetic.experiments import edited, written
from trilane.lab import Experiment


def test_the_list_has_every_experiment_with_what_it_is_about(tmp_path: Path) -> None:
    done = trilane("lab", "list", "--format", "json", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert rows["bookstore"]["forms"] == ["published", "fair"]
    for width, part in (("80", "title"), ("120", "question")):
        text = trilane("lab", "list", folder=tmp_path, COLUMNS=width)
        assert text.returncode == 0
        for name, row in rows.items():
            assert f"  {name} " in text.stdout
            assert row["group"]
            assert set(row[part].split()) <= set(text.stdout.split()), name


def test_a_bad_file_of_yours_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    written(tmp_path / "experiments", edited(("margin = 0.1", "margin = 10")))
    done = trilane("lab", "list", folder=tmp_path)
    assert done.returncode == 1
    assert "bookstore" in done.stdout
    assert "error: experiments/sample.toml:22: forms.fair.margin: 10 is not a sh" in done.stderr


def test_what_no_post_confounded_is_not_called_published(tmp_path: Path) -> None:
    shown = trilane("lab", "show", "load-generators", folder=tmp_path).stdout
    assert "To be borne in mind:\n- " in shown
    assert "as published" not in shown


def test_show_tells_what_is_done_by_whom_and_what_was_published(tmp_path: Path) -> None:
    written(tmp_path)
    done = trilane("lab", "show", "sample.toml", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for part in (
        "A sample (sample)",
        "Confounded as published:\n- The moon.",
        "POST /hello and 1 more path in turn, with a body of 50 B, 10 and 100 requests",
        "7 blocks (21 with --publish)",
        "niquests-h3-multiplexed",
        "3.53 against 5.84",
        "0.60×",
    ):
        assert part in done.stdout
    quick = trilane("lab", "show", "sample.toml", "--form", "fair", "--quick", folder=tmp_path)
    assert "6 blocks" in quick.stdout
    assert "niquests" not in quick.stdout


def test_show_tells_calls_and_benchmarks_by_what_they_are(tmp_path: Path) -> None:
    done = trilane("lab", "show", "transcoding", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    said = " ".join(done.stdout.split())
    for part in (
        "one process of `go test -bench` for each run, client and server in it, for 1 s",
        "compared with grpc-go, 8 pairs with each other, ranked by ns_per_op",
        "BenchmarkVanguard/HTTP_GetBook",
        "1.98× first table",
        "GetBook of the library, as each arm writes it, for 1 s, at 1, 8 and 64 in flight",
        "embedded-h1-plain-json h1 plain 8 × 1 embedded JSON all",
        "grpc-go-h2c-grpc-codec",
    ):
        assert part in said, part


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("name", ["strategies", "bookstore", "transcoding"])
def test_no_name_is_cut_where_the_terminal_is_narrow(tmp_path: Path, name: str, width: int) -> None:
    done = trilane("lab", "show", name, folder=tmp_path, COLUMNS=str(width))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= width
    words = set(re.split(r"[\s,;]+", done.stdout))
    for form in Experiment.load(name).forms.values():
        for arm in form.arms:
            assert {arm.name, arm.client, arm.version, arm.strategy} <= words


def test_show_as_json_is_the_experiment(tmp_path: Path) -> None:
    path = written(tmp_path)
    done = trilane("lab", "show", str(path), "--format", "json", folder=tmp_path)
    assert Experiment.from_dict(json.loads(done.stdout)) == Experiment.load(path)


def test_names_that_look_like_markup_are_shown_as_they_are(tmp_path: Path) -> None:
    written(tmp_path, edited(('title = "A sample"', 'title = "A [bold]sample[/bold]"')))
    done = trilane("lab", "show", "sample.toml", folder=tmp_path)
    assert "A [bold]sample[/bold] (sample)" in done.stdout


def test_what_is_not_there_is_told_in_a_line(tmp_path: Path) -> None:
    for arguments, told in (
        (("show", "bookstor"), "no experiment 'bookstor': did you mean bookstore?"),
        (("show", "none.toml"), "cannot read none.toml: No such file or directory"),
        (("show", "bookstore", "--form", "fiar"), "no form 'fiar': did you mean fair?"),
    ):
        done = trilane("lab", *arguments, folder=tmp_path)
        assert done.returncode == 2
        assert told in done.stderr
        assert "\ntry: trilane lab" in done.stderr
        assert "Traceback" not in done.stderr
