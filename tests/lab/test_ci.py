"""action.yml and the pages of CI services: what their shell hands to `trilane ab`."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from peers.running import absent
from repository import ROOT
from trilane.lab.processes.launch import find_program

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
LIMIT_S = 300
# Stands for `python -m trilane`: keeps what it got, and leaves what the real one would.
FAKE = """\
import json, os, pathlib, sys
words = sys.argv[1:]
pathlib.Path(os.environ["TOLD"]).write_text(json.dumps(words))
if "--markdown" in words:
    pathlib.Path(words[words.index("--markdown") + 1]).write_text("**verdict**\\n")
sys.exit(int(os.environ.get("CODE", "0")))
"""
PYTHON = """\
#!/bin/sh
if [ "$1" = -c ]; then exec {python} "$@"; fi
exec {python} {fake} "$@"
"""


@dataclass
class Job:
    """A checked out repository on a runner."""

    folder: Path
    runner: Path
    git: str
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run the script of a step as GitHub does with `shell: bash`."""
        bash = shutil.which("bash")
        if bash is None:
            absent("bash is not installed on this machine")
        file = self.runner / "script.sh"
        file.write_text(script)
        return subprocess.run(
            [bash, "--noprofile", "--norc", "-eo", "pipefail", str(file)],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "HOME": str(self.runner), **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def commit(self, *words: str, at: Path | None = None) -> str:
        """Make an empty commit, and tell its hash."""
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        self.say(*who, "commit", "--quiet", "--allow-empty", "--message", "One", *words, at=at)
        return self.say("rev-parse", "HEAD", at=at)

    def say(self, *words: str, at: Path | None = None) -> str:
        """What git says."""
        done = subprocess.run(
            [self.git, *words],
            cwd=at or self.folder,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
        return done.stdout.strip()

    @property
    def told(self) -> list[str]:
        """The words that `trilane` got."""
        words: list[str] = json.loads((self.runner / "told.json").read_text())
        return words

    def file(self, name: str) -> str:
        return (self.runner / name).read_text()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    git = find_program("git")
    if git is None:
        absent("git is not installed on this machine")
    made = Job(tmp_path / "app", tmp_path / "runner", git)
    made.folder.mkdir()
    made.runner.mkdir()
    made.say("init", "--quiet", "--initial-branch", "main")
    program = made.runner / "trilane-ab" / "venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    fake = made.runner / "fake.py"
    fake.write_text(FAKE)
    program.write_text(PYTHON.format(python=sys.executable, fake=fake))
    program.chmod(0o755)
    made.environment = {
        "RUNNER_TEMP": str(made.runner),
        "GITHUB_STEP_SUMMARY": str(made.runner / "summary.md"),
        "GITHUB_OUTPUT": str(made.runner / "output"),
        "TOLD": str(made.runner / "told.json"),
    }
    return made


def measure() -> dict[str, Any]:
    """The step that measures."""
    return next(step for step in STEPS if step.get("id") == "measure")


def substituted(step: dict[str, Any], **inputs: str) -> dict[str, str]:
    """The environment of a step with its expressions in it, as GitHub has it."""
    found = {}
    for name, value in step["env"].items():
        asked = re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", value)
        assert asked is not None, value
        default = str(ACTION["inputs"][asked[1]]["default"])
        # What a default takes from GitHub is said by the test.
        assert "${{" not in default or asked[1].replace("-", "_") in inputs, asked[1]
        found[name] = inputs.get(asked[1].replace("-", "_"), default)
    return found


def test_every_input_is_described_and_used_and_no_other_is() -> None:
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(ACTION["runs"])))
    assert used == set(ACTION["inputs"])
    for name, given in ACTION["inputs"].items():
        assert given["description"].endswith((".", "`.")), name
        assert f"`{name}`" in PAGE, name
    for name, output in ACTION["outputs"].items():
        assert f"`{name}`" in PAGE
        kept = re.fullmatch(r"\$\{\{ steps\.measure\.outputs\.([\w-]+) \}\}", output["value"])
        assert kept is not None
        assert f'echo "{kept[1]}=' in measure()["run"]


def test_no_expression_stands_in_a_script() -> None:
    # What a stranger writes into the name of a branch would be run.
    assert [step["name"] for step in STEPS if "${{" in step.get("run", "")] == []
    assert {step["shell"] for step in STEPS if "run" in step} == {"bash"}


def test_the_inputs_reach_trilane_as_they_were_typed(job: Job) -> None:
    base, head = job.commit(), job.commit()
    job.environment |= substituted(
        measure(),
        base=base,
        head=head,
        branch="feature/$(touch broken)",
        build="make 'a b'",
        serve="./app --port {port}",
        budget="cpu +3%, p99 +10%",
        flags="--until-decided -H 'a: b $(touch broken)' -c 8",
        comment_file=str(job.runner / "comment.md"),
    )
    done = job.run(measure()["run"])
    assert done.returncode == 0, done.stderr
    state = job.runner / "trilane-ab" / "state"
    assert job.told == [
        *("-m", "trilane", "ab", "--base", base, "--head", head, "--state", str(state)),
        *("--markdown", str(state / "ab.md"), "--report", str(state / "ab.html")),
        *("--branch", "feature/$(touch broken)", "--build", "make 'a b'"),
        *("--serve", "./app --port {port}", "--budget", "cpu +3%, p99 +10%"),
        *("--until-decided", "-H", "a: b $(touch broken)", "-c", "8"),
    ]
    assert not (job.folder / "broken").exists()
    assert job.file("summary.md") == job.file("comment.md") == "**verdict**\n"
    told = dict(line.split("=", 1) for line in job.file("output").splitlines())
    assert told["exit-code"] == "0"
    assert Path(told["markdown"]).read_text() == "**verdict**\n"


@pytest.mark.parametrize("code", [3, 4])
def test_the_exit_code_is_that_of_trilane_and_the_summary_is_written(job: Job, code: int) -> None:
    base = job.commit()
    job.environment |= substituted(measure(), base=base, head=base, branch="main", command="true")
    job.environment |= {"CODE": str(code), "STATE": str(job.runner / "kept")}
    done = job.run(measure()["run"])
    assert done.returncode == code, done.stderr
    assert job.file("summary.md") == "**verdict**\n"
    assert f"exit-code={code}\n" in job.file("output")
    assert job.told[job.told.index("--state") + 1] == str(job.runner / "kept")


def test_what_was_not_checked_out_is_fetched(job: Job) -> None:
    base, head = job.commit(), job.commit()
    job.say("branch", "other", base)
    job.say("config", "uploadpack.allowAnySHA1InWant", "true")
    origin, job.folder = job.folder, job.runner / "checkout"
    job.say("clone", "--quiet", "--depth=1", f"file://{origin}", str(job.folder), at=job.runner)
    for asked, resolved in (
        (base, base),
        ("origin/other", "origin/other"),
        ("other", "origin/other"),
    ):
        job.environment |= substituted(
            measure(), base=asked, head="HEAD", branch="main", command="true"
        )
        done = job.run(measure()["run"])
        assert done.returncode == 0, done.stderr
        assert job.told[job.told.index("--base") + 1] == resolved
        assert job.say("rev-parse", f"{resolved}^{{commit}}") == base
    assert job.say("rev-parse", "HEAD") == head


def test_what_cannot_be_fetched_is_named(job: Job) -> None:
    job.commit()
    job.environment |= substituted(measure(), base="nowhere", head="HEAD", branch="main")
    done = job.run(measure()["run"])
    assert done.returncode == 2
    assert "::error title=Trilane A/B::base 'nowhere' is no revision" in done.stderr
    assert not (job.runner / "told.json").exists()


def test_trilane_is_installed_apart_from_what_is_measured(job: Job) -> None:
    install = next(step for step in STEPS if step.get("id") == "install")
    shutil.rmtree(job.runner / "trilane-ab")
    fake = job.runner / "bin"
    fake.mkdir()
    # `python3 -m venv FOLDER` leaves a python that says what it is asked for.
    (fake / "python3").write_text(
        '#!/bin/sh\nmkdir -p "$3/bin"\nprintf \'#!/bin/sh\\necho "$@"\\n\' > "$3/bin/python"\n'
        'chmod +x "$3/bin/python"\n'
    )
    (fake / "python3").chmod(0o755)
    path = f"{fake}{os.pathsep}{os.environ['PATH']}"
    wheels = job.runner / "trilane-ab" / "wheels"
    wheel = wheels / "trilane-1.0-cp311-abi3-linux_x86_64.whl"
    built = f"-m pip wheel --quiet --no-deps --wheel-dir {wheels} /action\n"
    for given, asked in (("trilane[lab]==1.0", "trilane[lab]==1.0"), ("", f"{wheel}[lab]")):
        job.environment |= {"PATH": path, "TRILANE": given, "ACTION": "/action"}
        wheels.mkdir(exist_ok=True, parents=True)
        wheel.touch()
        done = job.run(install["run"])
        assert done.returncode == 0, done.stderr
        # What a cache has kept is not built again.
        assert done.stdout == f"-m pip install --quiet {asked}\n"
    wheel.unlink()
    assert job.run(install["run"]).stdout.startswith(built)


def test_a_build_is_kept_by_what_it_is_built_of(job: Job) -> None:
    step = next(step for step in STEPS if step.get("id") == "build")
    keys = []
    for text in ("one", "two", "one"):
        (job.folder / "file").write_text(text)
        job.environment["ACTION"] = str(job.folder)
        assert job.run(step["run"]).returncode == 0
        keys.append(job.file("output").splitlines()[-1])
    assert keys[0] == keys[2] != keys[1]
    assert re.fullmatch(r"key=[0-9a-f]{64}", keys[0])


def test_base_is_where_head_branched_off(job: Job) -> None:
    common = job.commit()
    job.say("checkout", "--quiet", "-b", "topic")
    head = job.commit()
    job.say("checkout", "--quiet", "main")
    tip = job.commit("--message", "Another one")
    origin, job.folder = job.folder, job.runner / "checkout"
    job.say("config", "uploadpack.allowAnySHA1InWant", "true", at=origin)
    job.say("clone", "--quiet", "--depth=1", f"file://{origin}", str(job.folder), at=job.runner)
    # The tip of the base of a pull request, and what a first push has before it.
    for base in (tip, "0" * 40):
        job.environment |= substituted(
            measure(), base=base, head=head, branch="topic", command="true"
        )
        done = job.run(measure()["run"])
        assert done.returncode == 0, done.stderr
        assert job.told[job.told.index("--base") + 1] == common


def test_an_invalid_measurement_may_be_a_warning(job: Job) -> None:
    base = job.commit()
    job.environment |= substituted(
        measure(), base=base, head=base, branch="main", command="true", fail_on_invalid="false"
    )
    for code, ends in ((4, 0), (3, 3)):
        job.environment["CODE"] = str(code)
        done = job.run(measure()["run"])
        assert done.returncode == ends, done.stderr
        assert f"exit-code={code}\n" in job.file("output")
    job.environment["CODE"] = "4"
    said = job.run(measure()["run"]).stdout
    assert "::warning title=Trilane A/B::the measurement is invalid" in said


def test_the_page_of_github_uses_the_action_as_it_is() -> None:
    workflow = yaml.safe_load(BLOCKS[0])
    [job] = workflow["jobs"].values()
    [step] = [step for step in job["steps"] if step.get("id") == "ab"]
    assert set(step["with"]) <= set(ACTION["inputs"])
    rows = re.findall(r"^\| ((?:`[\w-]+`(?:, )?)+) \|", PAGE, flags=re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}
    assert set(ACTION["inputs"]) <= told


def test_the_workflow_of_the_examples_asks_for_what_its_readme_types(job: Job) -> None:
    examples = ROOT / "examples"
    workflow = yaml.safe_load((examples / "ci/performance.yml").read_text(encoding="utf-8"))
    [step] = [step for step in workflow["jobs"]["race"]["steps"] if "OWNER/trilane" in step["uses"]]
    base, head = job.commit(), job.commit()
    job.environment |= substituted(measure(), base=base, head=head, branch="topic", **step["with"])
    done = job.run(measure()["run"])
    assert done.returncode == 0, done.stderr
    readme = (examples / "README.md").read_text(encoding="utf-8")
    [typed] = re.findall(r"^\$ trilane ab --base HEAD~1 (.*)$", readme, flags=re.MULTILINE)
    assert set(shlex.split(typed)) < set(job.told)


def test_the_job_of_gitlab_hands_over_what_it_should(job: Job) -> None:
    asked = yaml.safe_load(BLOCKS[-1])["performance"]
    base = job.commit()
    fake = job.runner / "trilane-ab" / "venv" / "bin" / "python"
    script = "\n".join(asked["script"]).replace("/opt/trilane/bin/trilane", f"{fake} -m trilane")
    job.environment |= {
        "CI_COMMIT_BEFORE_SHA": base,
        "CI_COMMIT_SHA": base,
        "CI_COMMIT_REF_NAME": "main",
        "CODE": "4",
    }
    done = job.run(script)
    assert done.returncode == 4
    assert asked["allow_failure"]["exit_codes"] == [4]
    words = job.told
    assert words[:4] == ["-m", "trilane", "ab", "--base"]
    assert words[words.index("--branch") + 1] == "main"
    assert words[words.index("--serve") + 1] == "./target/release/app --port {port}"
    kept = asked["artifacts"]["paths"]
    assert {words[words.index(flag) + 1] for flag in ("--markdown", "--report")} <= set(kept)
    job.environment["CI_MERGE_REQUEST_DIFF_BASE_SHA"] = "1234567"
    job.environment["CI_MERGE_REQUEST_SOURCE_BRANCH_NAME"] = "topic"
    job.run(script)
    words = job.told
    assert words[words.index("--base") + 1] == "1234567"
    assert words[words.index("--branch") + 1] == "topic"


def test_every_flag_of_the_pages_is_one_of_trilane_ab() -> None:
    from trilane.cli import ab  # noqa: PLC0415 - only its parameters

    known = {f"--{name.replace('_', '-')}" for name in ab.ab.__annotations__}
    script = measure()["run"]
    named = {
        f"--{name.lower()}" for name in re.findall(r"for name in ([A-Z ]{20,});", script)[0].split()
    }
    words = re.search(r"words=\((.*?)\)\n", script)
    assert words is not None
    named |= set(re.findall(r"--[a-z-]+", words[1]))
    named |= set(re.findall(r"--[a-z-]+", yaml.safe_load(BLOCKS[-1])["performance"]["script"][1]))
    # What the commands in quotes have is theirs.
    assert named - {"--release", "--port"} <= known, named - known


ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.7"


def program(name: str) -> str:
    found = find_program(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        absent(f"{name} is not installed on this machine")
    return found


def checked(*words: str, given: str | None = None) -> None:
    done = subprocess.run(
        words,
        input=given,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("step", [step for step in STEPS if "run" in step], ids=lambda s: s["name"])
def test_shellcheck_finds_nothing(step: dict[str, Any]) -> None:
    names = "".join(f"export {name}\n" for name in [*step["env"], "RUNNER_TEMP"])
    words = [program("shellcheck"), "--shell=bash", "-"]
    checked(*words, given=f"set -eo pipefail\n{names}{step['run']}")


def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    workflows = tmp_path / ".github" / "workflows"
    workflows.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    shutil.copy(ROOT / "action.yml", tmp_path)
    workflow = BLOCKS[0].replace("OWNER/trilane@main", "./") + BLOCKS[1]
    file = workflows / "performance.yml"
    file.write_text(workflow)
    example = (ROOT / "examples/ci/performance.yml").read_text(encoding="utf-8")
    (workflows / "example.yml").write_text(example.replace("OWNER/trilane@main", "./"))
    files = sorted(map(str, workflows.iterdir()))
    # Debian has no package of it, and that of PyPI downloads the program from elsewhere.
    checked(program("go"), "run", ACTIONLINT, "-no-color", "-shellcheck=", "-pyflakes=", *files)


WORK = "i=0; while [ $i -lt {turns} ]; do i=$((i+1)); done\n"


def test_a_costlier_commit_fails_the_step_with_its_table_in_the_summary(job: Job) -> None:
    commits = []
    for turns in (2_000, 60_000):
        (job.folder / "work.sh").write_text(WORK.format(turns=turns))
        job.say("add", "work.sh")
        commits.append(job.commit())
    # This time Trilane itself, as it would be installed.
    program = job.runner / "trilane-ab" / "venv" / "bin" / "python"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    job.environment |= substituted(
        measure(),
        base=commits[0],
        head=commits[1],
        branch="main",
        command="sh work.sh",
        budget="cpu +50%",
        flags="--blocks 7 --repeat 1 --no-pin",
    )
    job.environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = job.run(measure()["run"])
    assert done.returncode == 3, done.stdout + done.stderr
    assert "| breached |" in job.file("summary.md")
    told = dict(line.split("=", 1) for line in job.file("output").splitlines())
    assert told["exit-code"] == "3"
    assert "breached" in Path(told["report"]).read_text(encoding="utf-8")
    assert len(list(Path(told["state"], "runs").iterdir())) == 1
