"""Clients and servers that are nowhere: told with file, line, key and the nearest right name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from synthetic.experiments import sample, written
from trilane.lab import BadExperiment, names, study
from trilane.lab.asked import Wanted
from trilane.lab.experiment.experiment import Experiment
from trilane.lab.experiment.form import Form
from trilane.lab.experiment.workload import Workload


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder of the current one may add clients or servers."""
    monkeypatch.chdir(tmp_path)


def every(made: Experiment) -> list[str]:
    return [arm.name for arm in made.forms["fair"].arms]


def check(made: Experiment) -> None:
    names.check(made, "fair", every(made))


MATRIX = "forms.fair.matrix"
MISSPELT = 'client = "reqests"\nversion = "h1"\nstrategy = "serial"'


@pytest.mark.parametrize(
    ("edit", "line", "told"),
    [
        (
            (MISSPELT.replace("reqests", "requests"), MISSPELT),
            MISSPELT.splitlines()[0],
            "forms.fair.arms[0].client: 'reqests' is not a client: did you mean requests?",
        ),
        (
            ('client = "engine"', 'client = "engin"'),
            'client = "engin"',
            "forms.fair.arms[2].client: 'engin' is not a client: did you mean engine?",
        ),
        (
            ('server = "twisted-hello"', 'server = "twisted-helo"'),
            'server = "twisted-helo"',
            "forms.fair.arms[1].server: 'twisted-helo' is not a server: did you mean twisted-hel",
        ),
        (
            ('server = "embedded"', 'server = "embeded"'),
            'server = "embeded"',
            "forms.fair.server: 'embeded' is not a server: did you mean embedded?",
        ),
        (
            ('client = ["httpx", "niquests"]', 'client = [\n  "httpx",\n  "niquest",\n]'),
            '  "niquest",',
            f"{MATRIX}.client[1]: 'niquest' is not a client: did you mean niquests?",
        ),
    ],
)
def test_it_is_told_where_it_stands(
    tmp_path: Path, edit: tuple[str, str], line: str, told: str
) -> None:
    edits = [edit]
    if "niquest" in line:
        exclude = ('{ client = ["niquests"], strategy', '{ client = ["niquest"], strategy')
        edits.append(exclude)
    made = sample(tmp_path, *edits)
    text = (tmp_path / "sample.toml").read_text()
    with pytest.raises(BadExperiment) as caught:
        check(made)
    number = text.splitlines().index(line) + 1
    assert str(caught.value).startswith(f"sample.toml:{number}: {told}")


def test_far_from_every_name_all_are_told(tmp_path: Path) -> None:
    made = sample(tmp_path, ('client = "engine"', 'client = "zzzz"'))
    with pytest.raises(BadExperiment, match=r"choose from engine, go-bench, .*requests.*wrk"):
        check(made)


def test_only_arms_that_are_asked_for_are_looked_at(tmp_path: Path) -> None:
    made = sample(tmp_path, ('client = "engine"', 'client = "engin"'))
    names.check(made, "fair", ["plain"])


def test_what_there_is_passes(tmp_path: Path) -> None:
    check(sample(tmp_path))
    check(sample(tmp_path, ('server = "embedded"', 'server = "https://example.org"')))


def test_yours_come_beside_those_that_ship(tmp_path: Path) -> None:
    own = tmp_path / "contenders" / "mine"
    own.mkdir(parents=True)
    (own / "contender.toml").write_text(
        'command = ["mine"]\nversions = ["h2"]\nstrategies = ["load"]\n'
    )
    check(sample(tmp_path, ('client = "engine"', 'client = "mine"')))


def test_without_its_file_the_key_is_told(tmp_path: Path) -> None:
    made = sample(tmp_path, ('client = "engine"', 'client = "engin"'))
    written(tmp_path)
    for each in (made, replace(made, path=None), replace(made, path=tmp_path / "gone.toml")):
        with pytest.raises(BadExperiment) as caught:
            check(each)
        assert str(caught.value).startswith("forms.fair.arms[2].client: 'engin' is not")


def test_the_module_of_a_benchmark_is_a_folder() -> None:
    work = Workload(kind="benchmark", paths=(), duration_s=1.0)

    def benchmark(server: str) -> Experiment:
        arm = work.arm("go-bench", "h1", name="one", server=server, benchmark="BenchmarkX")
        form = Form(
            name="fair",
            baseline="one",
            rank="ns_per_op",
            measures=("ns_per_op",),
            workload=work,
            arms=(arm,),
        )
        return Experiment("trial", "A trial", "Which?", {"fair": form})

    check(benchmark("go-library"))
    with pytest.raises(BadExperiment, match=r"arms\[0\].server: 'go-libary' is not a server: did"):
        check(benchmark("go-libary"))


def test_nothing_is_begun_and_nothing_left(tmp_path: Path) -> None:
    made = sample(tmp_path, ('client = "engine"', 'client = "engin"'))
    said: list[str] = []
    watcher = study.Watcher(
        say=said.append,
        begin=lambda _runs, _made: None,
        step=lambda _title, _block, _blocks, _left_s: None,
    )
    with pytest.raises(BadExperiment, match=r"^sample\.toml:"):
        study.run(Wanted(made, "fair", state=tmp_path / "state"), watcher)
    assert said == []
    assert not (tmp_path / "state").exists()
