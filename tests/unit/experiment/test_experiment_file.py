"""Experiment files: what is wrong is told with file, line and key, and the schema knows it too."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from repository import ROOT
from synthetic.experiments import TEXT, edited, written
from trilane.lab import BadExperiment
from trilane.lab.experiment import vocabulary
from trilane.lab.experiment.experiment_file import find, read

SCHEMA = json.loads((ROOT / "docs" / "experiment.schema.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)

# Text to replace in the sample, what takes its place, and how the message goes on behind the file
# and the line, which is the one marked with "#!".
FORM = "forms.fair"
ARM = "forms.fair.arms[1]"
SHAPE = [
    ('schema = "trilane.experiment/1"', 'schema = "trilane.experiment/2" #!', "schema: is 'tri"),
    ('name = "sample"', "name = 5 #!", "name: takes text, not 5"),
    ('title = "A sample"', 'title = " " #!', "title: is empty"),
    ('question = "Which?"', 'qestion = "Which?" #!', "qestion: unknown key: did you mean ques"),
    ('hypothesis = "This', 'hypotesis = "This" #!\n#', "hypotesis: unknown key: did you mean hypo"),
    ('confounders = ["The moon."]', 'confounders = "The moon" #!', "confounders: takes a list"),
    ('title = "A post"', 'headline = "A post" #!', "source: title is missing"),
    ('date = "2020-02-29"', "date = 2020-02-29 #!", "source.date: takes text"),
    ('baseline = "plain"', "", f"{FORM}: baseline is missing: add baseline = …"),
    ('rank = "elapsed_s"', 'rank = "elapsed" #!', f"{FORM}.rank: 'elapsed' is not a measure: did"),
    ('"user_s"]', '"usr_s"] #!', f"{FORM}.measures[1]: 'usr_s' is not a measure: did you mean us"),
    ('"user_s"]', '"elapsed_s"] #!', f"{FORM}.measures[1]: 'elapsed_s' is there already"),
    ("pin = true", 'pin = "yes" #!', f"{FORM}.pin: takes true or false, not 'yes'"),
    ("margin = 0.1", "margin = 10 #!", f"{FORM}.margin: 10 is not a share"),
    ('network = "rtt=40ms"', "network = 40 #!", f"{FORM}.network: takes text"),
    ('server = "embedded"', 'server = "ftp://x" #!', f"{FORM}.server: 'ftp://x' is neither"),
    ("blocks = 7", "blocks = 0 #!", f"{FORM}.stats.blocks: must be at least 1, not 0"),
    ("blocks = 7", 'blocks = "7" #!', f"{FORM}.stats.blocks: takes a whole number, not '7'"),
    ("publish_blocks = 21", "publish = 21 #!", f"{FORM}.stats.publish: unknown key: did you mean"),
    ('kind = "urls"', 'kind = "url" #!', f"{FORM}.workload.kind: 'url' is not a kind of workload"),
    ('["/hello", "/echo"]', '["hello"] #!', f"{FORM}.workload.paths[0]: 'hello' does not begin"),
    ('paths = ["/hello", "/echo"]', "paths = [] #!", f"{FORM}.workload: paths is missing"),
    ('kind = "urls"', 'kind = "crawl"', f'{FORM}.workload.paths: goes with kind = "urls"'),
    ('method = "POST"', 'method = "post" #!', f"{FORM}.workload.method: 'post' is not a method"),
    ('method = "POST"', 'method = "POST"\nbody = "x"', f"{FORM}.workload.body_bytes: there is a"),
    ("body_bytes = 50", "body_bytes = -1 #!", f"{FORM}.workload.body_bytes: must be at least 0"),
    (
        '"x-empty:"]',
        '"x-empty"] #!',
        f"{FORM}.workload.headers[1]: 'x-empty' is not a header field",
    ),
    ("in_flight = 10", "in_flight = 0 #!", f"{FORM}.workload.in_flight: must be at least 1"),
    ("warmup = 3", "warmup = -3 #!", f"{FORM}.workload.warmup: must be at least 0"),
    ("warmup = 3", 'warmup = "3s" #!', f"{FORM}.workload.warmup: takes a whole number"),
    ("repeat = 2", "repeat = 0 #!", f"{FORM}.workload.repeat: must be at least 1"),
    ('timeout = "5s"', 'timeout = "soon" #!', f"{FORM}.workload.timeout: 'soon' is not a time"),
    ('key = "count"', 'key = "requests" #!', f"{FORM}.sweep.key: 'requests' cannot be swept"),
    ("[10, 100]", "[10, 10] #!", f"{FORM}.sweep.values[1]: 10 is there already"),
    ("[10, 100]", "[10, 100.5] #!", f"{FORM}.sweep.values[1]: takes whole numbers"),
    ("[10, 100]", '[10, "1s"] #!', f"{FORM}.sweep.values[1]: takes a number, not '1s'"),
    ("[10, 100]", "[10, true] #!", f"{FORM}.sweep.values[1]: takes a number, or a time such as 40"),
    ("values = [10, 100]", "values = [] #!", f"{FORM}.sweep: values is missing or empty"),
    ('[["plain", "httpx-h2-serial"]]', '[["plain"]] #!', f"{FORM}.sweep.crossings[0]: takes pairs"),
    ('[["plain", "httpx-h2-serial"]]', '["plain"] #!', f"{FORM}.sweep.crossings: takes a list of"),
    ('name = "some"', 'name = "so me" #!', f"{ARM}.name: 'so me' is not a name of an arm"),
    ('strategy = "threads"', 'strategy = "thread" #!', f"{ARM}.strategy: 'thread' is not a strat"),
    ('"twisted-hello"', '"../hello" #!', f"{ARM}.server: '../hello' is neither a name of a ser"),
    ("threads = 4", "threads = 0 #!", f"{ARM}.threads: must be at least 1, not 0"),
    ("at = [100]", "at = [] #!", f"{ARM}.at: is empty"),
    ("session = false", "sesion = false #!", f"{ARM}.sesion: unknown key: did you mean session?"),
    (
        '["h2", "h3"]',
        '["h2", "h4"] #!',
        f"{FORM}.matrix.version[1]: 'h4' is not a version: choose fro",
    ),
    ('client = "engine"', 'client = "tri lane" #!', f"{FORM}.arms[2].client: 'tri lane' is not"),
    ('["httpx", "niquests"]', "[] #!", f"{FORM}.matrix.client: is empty: then there is no arm"),
    (
        'version = ["h2", "h3"]',
        'version = "h2" #!',
        f"{FORM}.matrix.version: takes a list, not 'h2",
    ),
    ('strategy = ["serial", "multiplexed"]', "", f"{FORM}.matrix: strategy is missing"),
    (
        '{ client = "httpx", version = "h3" }',
        "{ cient = 1 }",
        f"{FORM}.matrix.exclude[0].cient: unk",
    ),
    (
        "values = [3.53, 5.84]",
        "values = [3.53] #!",
        f"{FORM}.published[0].values: takes two numbers",
    ),
    ("values = [3.53, 5.84]", "values = [0, 1] #!", f"{FORM}.published[0].values: takes two numbe"),
    ('where = "table 1"', 'were = "table 1" #!', f"{FORM}.published[0].were: unknown key: did you"),
    ("high = 1.5", "", f"{FORM}.expect[0]: high is missing"),
    ("low = 0.5", "low = -0.5 #!", f"{FORM}.expect[0].low: -0.5 is not below high"),
    ("blocks = 6", "blocks = 0 #!", f"{FORM}.quick.blocks: must be at least 1"),
    ("[5, 50]", "[5, 5] #!", f"{FORM}.quick.values[1]: 5 is there already"),
    ('arms = ["plain", "httpx-h2-serial"]', "arms = [] #!", f"{FORM}.quick.arms: is empty"),
    ('"rtt=5ms"', "5 #!", f"{FORM}.quick.network: takes text, not 5"),
]
# What a schema cannot know: names that refer to others, sums that must fit.
MEANING = [
    (
        'client = "engine"',
        'client = "engine"\nflags = ["--new-conections"] #!',
        f"{FORM}.arms[2].flags[0]: '--new-conections' is not a flag: did you mean --new-conn",
    ),
    (
        'client = "engine"',
        'client = "engine"\nflags = ["--resume"] #!',
        f"{FORM}.arms[2].flags[0]: --resume needs a value behind it",
    ),
    (
        'strategy = "threads"',
        'strategy = "threads"\nflags = ["--early-data"] #!',
        f'{ARM}.flags: go with client = "engine" and strategy = "load"',
    ),
    (
        'client = "engine"',
        'client = "engine"\nserver_flags = ["--port", "80"] #!',
        f"{FORM}.arms[2].server_flags[0]: '--port' is not a flag: did you mean --retry?",
    ),
    (
        'strategy = "threads"',
        'strategy = "threads"\nserver_flags = ["--retry"] #!',
        f'{ARM}.server_flags: go with server = "embedded" or client = "go-bench"',
    ),
    ('"rtt=40ms"', '"rtt=40" #!', f"{FORM}.network: rtt=40: say a unit"),
    ('"rtt=5ms"', '"soon" #!', f"{FORM}.quick.network: soon"),
    ('name = "sample"', 'name = "simple" #!', "name: is 'simple', but the file is sample.toml"),
    (
        'baseline = "plain"',
        'baseline = "plan" #!',
        f"{FORM}.baseline: 'plan' is not an arm: did you m",
    ),
    ('rank = "elapsed_s"', 'rank = "p50" #!', f"{FORM}.rank: 'p50' is not among the measures"),
    (
        'rank = "elapsed_s"\nmeasures = ["elapsed_s"',
        'rank = "wire_bytes_per_request" #!\nmeasures = ["elapsed_s", "wire_bytes_per_request"',
        f"{FORM}.rank: 'wire_bytes_per_request' counts what all programs of the machine send",
    ),
    (
        '["/hello", "/echo"]',
        '["/{body_bytes}"] #!',
        f"{FORM}.workload.paths: {{body_bytes}} stands",
    ),
    ("warmup = 3", "count = 5 #!", f"{FORM}.workload.count: the sweep sets the count"),
    ('timeout = "5s"', 'timeout = "0s" #!', f"{FORM}.workload.timeout: must be above 0"),
    ("body_bytes = 50", "body_file = true #!", f"{FORM}.workload.body_file: how large is it? add"),
    (
        "body_bytes = 50",
        "body_bytes = 0 #!\nbody_file = true",
        f"{FORM}.workload.body_bytes: must be at least 1, not 0",
    ),
    (
        "body_bytes = 50",
        'body = "x"\nbody_file = true #!',
        f"{FORM}.workload.body_file: there is a body already: give its size as body_bytes",
    ),
    (
        'kind = "urls"\npaths = ["/hello", "/echo"]',
        'kind = "crawl"\nstart = "/site/"\ndiscard = true #!',
        f"{FORM}.workload.discard: a workload of kind crawl reads what follows from the bodies",
    ),
    (
        '"httpx-h2-serial"]]',
        '"engin"]] #!',
        f"{FORM}.sweep.crossings[0][1]: 'engin' is not an arm: did",
    ),
    ('"httpx-h2-serial"]]', '"some"]] #!', f"{FORM}.sweep.crossings[0]: a crossing needs two val"),
    ("[10, 100]", "[0, 100] #!", f"{FORM}.sweep.values[0]: must be at least 1"),
    ('name = "some"', 'name = "plain" #!', f"{ARM}.name: there are two arms named 'plain'"),
    ("threads = 4", "threads = 4\nin_flight = 5 #!", f"{ARM}.in_flight: 5 contradicts threads = 4"),
    ("threads = 4", "chunk = 4 #!", f"{ARM}.chunk: threads has none"),
    (
        "at = [100]",
        "at = [1000] #!",
        f"{ARM}.at[0]: 1,000 is not a value of the sweep: choose from 10",
    ),
    ("connections = 2", "connections = 3", f"{FORM}.arms[2].in_flight: 10 is not connections"),
    ('title = "Plain"', "in_flight = 2 #!", f"{FORM}.arms[0].in_flight: serial has one"),
    ('version = "h3" }', 'version = "h2c" }', f"{FORM}.matrix.exclude[0]: excludes nothing"),
    (
        'arm = "some"',
        'arm = "sone" #!',
        f"{FORM}.published[0].arm: 'sone' is not an arm: did you mean",
    ),
    (
        'to = "plain"\nvalues',
        'to = "some" #!\nvalues',
        f"{FORM}.published[0].to: 'some' is compared",
    ),
    ("at = 100\n", "", f"{FORM}.published[0]: at is missing: say at which"),
    ("at = 100\n", "at = 10 #!\n", f"{FORM}.published[0].at: some does not run at 10"),
    ("at = 100\n", "at = 11 #!\n", f"{FORM}.published[0].at: '11' is not a value of the sweep"),
    ("low = 0.5", "low = 2 #!", f"{FORM}.expect[0].low: 2 is not below high = 1.5"),
    ("blocks = 6", "blocks = 8 #!", f"{FORM}.quick.blocks: 8 is more than the 7 of the form: --q"),
    ("repeat = 1", "repeat = 3 #!", f"{FORM}.quick.repeat: 3 is more than the 2 of the form"),
    ("repeat = 1", "count = 4 #!", f"{FORM}.quick.count: the form does not run by count: use val"),
    ("repeat = 1", 'duration = "1s" #!', f"{FORM}.quick.duration: the form does not run by dura"),
    (
        'arms = ["plain", "h',
        'arms = ["plane", "h',
        f"{FORM}.quick.arms[0]: 'plane' is not an arm: did",
    ),
]


# What JSON has no words for.
ENDLESS = [
    ("[10, 100]", "[10, inf] #!", f"{FORM}.sweep.values[1]: takes whole numbers, not inf"),
    ("[10, 100]", "[nan, 100] #!", f"{FORM}.sweep.values[0]: takes whole numbers, not nan"),
    ("[3.53, 5.84]", "[3.53, inf] #!", f"{FORM}.published[0].values: takes two numbers above 0"),
]


def refused(folder: Path, text: str) -> str:
    path = written(folder, text)
    with pytest.raises(BadExperiment) as caught:
        read(path)
    return str(caught.value).removeprefix(str(path))


@pytest.mark.parametrize(("old", "new", "told"), [*SHAPE, *MEANING, *ENDLESS])
def test_what_is_wrong_is_told_with_its_line_and_key(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    text = edited((old, new))
    message = refused(tmp_path, text)
    found = re.fullmatch(r":(\d+): (.*)", message, re.DOTALL)
    assert found, message
    assert found[2].startswith(told), message
    marked = [number for number, line in enumerate(text.splitlines(), 1) if "#!" in line]
    if marked and "missing" not in told:
        assert [int(found[1])] == marked
    assert "\n" not in message


def test_what_all_programs_send_decides_no_gate(tmp_path: Path) -> None:
    measures = ('"user_s"]', '"user_s", "wire_bytes_per_request"]')
    gate = ('measure = "user_s"', 'measure = "wire_bytes_per_request"')
    message = refused(tmp_path, edited(measures, gate))
    assert f"{FORM}.expect[0].measure: 'wire_bytes_per_request' counts what all" in message


@pytest.mark.parametrize(("old", "new", "told"), SHAPE)
def test_the_schema_refuses_it_as_well(old: str, new: str, told: str) -> None:
    assert not VALIDATOR.is_valid(plain(edited((old, new)))), told


@pytest.mark.parametrize(("old", "new", "told"), MEANING)
def test_the_schema_cannot_know_the_meaning(old: str, new: str, told: str) -> None:
    VALIDATOR.validate(plain(edited((old, new))))


def plain(text: str) -> object:
    """The document as JSON would have it: a date is none of its types."""
    return json.loads(json.dumps(tomllib.loads(text), default=lambda _: 0))


def test_a_time_is_a_number_of_seconds_once_it_is_read() -> None:
    # msgspec writes no type of ours: a run holds the limit of its requests.
    for name in ("transcoding", "clients-serial", "spider"):
        for form in find(name, [ROOT / "experiments"]).forms.values():
            numbers = [form.workload.timeout_s, form.workload.duration_s, form.workload.warmup_s]
            numbers += (
                [value for value in form.sweep.values if isinstance(value, float)]
                if form.sweep
                else []
            )
            assert {type(number) for number in numbers} <= {int, float, type(None)}, name


def test_the_sample_passes_the_schema() -> None:
    VALIDATOR.validate(tomllib.loads(TEXT))


def test_the_schema_refuses_a_row_of_exclude_that_names_nothing() -> None:
    for row in ("{ client = [] }", "{ }"):
        text = edited(('{ client = "httpx", version = "h3" }', row))
        assert not VALIDATOR.is_valid(tomllib.loads(text))


def test_the_schema_knows_the_words() -> None:
    arm, workload, form, sweep = (
        SCHEMA["$defs"][f"{name}Table"]["properties"]
        for name in ("Arm", "Workload", "Form", "Sweep")
    )
    words = {
        "version": [each["const"] for each in arm["version"]["oneOf"]],
        "strategy": [each["const"] for each in arm["strategy"]["oneOf"]],
        "kind": [each["const"] for each in workload["kind"]["oneOf"]],
        "measure": form["rank"]["enum"],
        "sweep": sweep["key"]["enum"],
    }
    assert words == {
        "version": list(vocabulary.VERSIONS),
        "strategy": list(vocabulary.STRATEGIES),
        "kind": list(vocabulary.KINDS),
        "measure": list(vocabulary.MEASURES),
        "sweep": list(vocabulary.SWEEPS),
    }


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("a = 1\nb = \n", 2, "is not TOML: invalid value"),
        ('a = 1\nb = "x', 2, "is not TOML: unterminated string"),
        ("a = 1\na = 2\n", 2, "is not TOML: cannot overwrite a value"),
        ("", 1, "schema is missing"),
    ],
)
def test_what_is_not_toml_is_told_with_its_line(
    tmp_path: Path, text: str, line: int, told: str
) -> None:
    assert refused(tmp_path, text).startswith(f":{line}: {told}")


def test_what_is_not_text_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "sample.toml"
    path.write_bytes(b"a = 1\nb = '\xff'\n")
    with pytest.raises(BadExperiment, match=r"sample\.toml:2: is not UTF-8"):
        read(path)


def test_a_file_here_is_told_as_people_would_write_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, edited(("margin = 0.1", "margin = 10")))
    with pytest.raises(BadExperiment, match=r"^sample\.toml:22: forms\.fair\.margin: "):
        read(path)


def test_an_experiment_is_found_by_name_in_the_first_folder_that_has_it(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        written(folder)
    assert find("sample", [first, second]).path == first / "sample.toml"
    with pytest.raises(BadExperiment, match="no experiment 'simple': did you mean sample"):
        find("simple", [first, second])
    with pytest.raises(BadExperiment, match="there is no experiment in "):
        find("sample", [tmp_path])


def test_the_manual_shows_files_and_code_that_work(tmp_path: Path) -> None:
    manual = (ROOT / "docs" / "experiments.md").read_text()
    smallest = re.findall(r"```toml\n(.*?)```", manual, re.DOTALL)[0]
    path = tmp_path / "hello.toml"
    path.write_text(smallest)
    assert [arm.name for arm in read(path).forms["fair"].arms] == [
        "requests-h1-serial",
        "httpx-h1-serial",
    ]
    VALIDATOR.validate(tomllib.loads(smallest))
    for code in re.findall(r"```python\n(.*?)```", manual, re.DOTALL):
        exec(compile(code, "experiments.md", "exec"), {})  # noqa: S102 - our own manual


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('version = ["h1"]', 'version = ["h1", "h4"]', r"\[1\]: 'h4' is not a version: choose fro"),
        ("measures =", "mesures =", r"unknown key: did you mean measures\?"),
    ],
)
def test_the_manual_shows_messages_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, told: str
) -> None:
    manual = (ROOT / "docs" / "experiments.md").read_text()
    smallest = re.findall(r"```toml\n(.*?)```", manual, re.DOTALL)[0]
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "experiments" / "hello.toml"
    path.parent.mkdir()
    path.write_text(smallest.replace(old, new))
    with pytest.raises(BadExperiment, match=told) as caught:
        read(path)
    assert str(caught.value) in manual
