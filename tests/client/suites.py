"""Other projects' own test suites: where their sources come from, and how they are run.

For the scripts that run one in an environment of its own, with our module in the place of what the
project has. The tests are only in source distributions.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT_S = 600
"""For a whole suite, or one part of it."""
CASE_LIMIT_S = 60

# The plugin is imported before pytest reads its settings, for which it may import what is tested.
# It ends at once, as some cases leave threads that never end.
_RUN = (
    "import os, sys, {plugin}, client.outcomes, pytest;"
    " code = pytest.main(plugins=[client.outcomes, {plugin}]);"
    " sys.stdout.flush(); os._exit(code)"
)


@dataclass(frozen=True)
class Source:
    """A source distribution."""

    name: str
    version: str
    sha256: str

    def archive(self, cache: Path) -> Path:
        """The archive, fetched by pip, which refuses one whose hash is another, and then kept."""
        name = f"{self.name}-{self.version}.tar.gz"
        kept = cache / self.sha256 / name
        if kept.exists():
            return kept
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            wanted = Path(folder) / "requirements.txt"
            wanted.write_text(f"{self.name}=={self.version} --hash=sha256:{self.sha256}\n")
            subprocess.run(
                [
                    *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
                    *("--no-binary", self.name, "--no-build-isolation", "--require-hashes"),
                    *("--disable-pip-version-check", "--dest", folder, "-r", str(wanted)),
                ],
                check=True,
                timeout=LIMIT_S,
            )
            shutil.move(Path(folder) / name, kept)
        return kept

    @contextlib.contextmanager
    def unpacked(self, cache: Path) -> Iterator[Path]:
        """Its files, in a folder that ends with the context."""
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(self.archive(cache)) as tar:
                tar.extractall(folder, filter="data")
            yield Path(folder) / f"{self.name}-{self.version}"


class Part:
    """One pytest over some of a suite's cases, running beside others."""

    def __init__(
        self,
        root: Path,
        plugin: Path,
        cases: tuple[str, ...],
        report: Path,
        *,
        settings: Mapping[str, str],
        case_limit_s: float = CASE_LIMIT_S,
    ) -> None:
        """Begin. `plugin` is a file; the cases are arguments of pytest, which runs in `root`.

        The module `client.outcomes` writes to `report` how the cases went.
        """
        # `trilane` and `client` come from the PYTHONPATH.
        path = os.pathsep.join(p for p in (str(plugin.parent), os.environ["PYTHONPATH"]) if p)
        self.report = report
        self._log = report.with_suffix(".log")
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-c", _RUN.format(plugin=plugin.stem)),
                    *("-p", "no:cacheprovider", "--timeout", str(case_limit_s)),
                    *("-q", "--tb=short", *cases),
                ],
                cwd=root,
                env=os.environ
                | {"PYTHONPATH": path, "SUITE_OUTCOMES": str(report.resolve())}
                | dict(settings),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def finish(self, limit_s: float = LIMIT_S) -> None:
        """Wait for the end.

        Raises:
            SystemExit: pytest did not run to its end, with what it printed.
        """
        try:
            code = self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            self.end()
        if code not in {0, 1}:  # 1: cases failed
            raise SystemExit(f"pytest ended with {code}:\n{self._log.read_text(errors='replace')}")

    def end(self) -> None:
        """End it, if it has not ended."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def run(
    root: Path,
    plugin: Path,
    parts: Iterable[tuple[tuple[str, ...], Mapping[str, str]]],
    *,
    case_limit_s: float = CASE_LIMIT_S,
) -> dict[str, Any]:
    """What all parts reported, in one; each is the arguments of a pytest and its settings.

    They run at the same time, as most cases wait.

    Raises:
        SystemExit: one of them did not run to its end.
    """
    cases: dict[str, Any] = {}
    versions: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        running = []
        for number, (arguments, settings) in enumerate(parts):
            report = root / f"outcomes-{number}.json"
            part = Part(
                root, plugin, arguments, report, settings=settings, case_limit_s=case_limit_s
            )
            stack.callback(part.end)
            running.append(part)
        for part in running:
            part.finish()
            found = json.loads(part.report.read_text())
            cases |= found["cases"]
            versions.update(found["versions"])
    return {"cases": cases, "versions": versions}
