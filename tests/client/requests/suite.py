# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "blinker==1.9.0",
#     "brotlicffi==1.2.1.0",
#     "certifi==2026.10.18",
#     "cffi==2.1.1",
#     "charset-normalizer==3.5.2",
#     "click==8.5.1",
#     "colorama==0.4.6 ; sys_platform == 'win32'",
#     "cryptography==50.0.2",
#     "decorator==5.3.1",
#     "flask==3.1.3",
#     "greenlet==2.0.2 ; python_full_version < '3.12'",
#     "greenlet==3.5.6 ; python_full_version >= '3.12'",
#     "httpbin==0.10.4",
#     "idna==3.20",
#     "iniconfig==2.3.1",
#     "itsdangerous==2.2.0",
#     "jinja2==3.1.6",
#     "markupsafe==3.0.4",
#     "packaging==26.3",
#     "pip==26.3",
#     "pluggy==1.7.0",
#     "pycparser==3.12 ; implementation_name != 'PyPy'",
#     "pygments==2.21.0",
#     "pysocks==1.7.1",
#     "pytest-httpbin==2.1.0",
#     "pytest-mock==3.17.0",
#     "pytest-timeout==2.4.0",
#     "pytest==9.2.0",
#     "requests==2.34.2",
#     "setuptools==84.2.1",
#     "six==1.17.0",
#     "trustme==1.2.1",
#     "urllib3==2.8.0",
#     "werkzeug==3.1.9",
# ]
# ///
"""Run Requests' own tests, with TrilaneAdapter or (`--baseline`) with Requests' own adapter.

The tests are only in the source distribution: it is fetched by pip, checked by its hash and kept in
the folder `--cache`. They run in three processes at once, as most of them sleep. The outcome of
every case is written to `--outcomes`: {"case": ["passed" | "failed" | "skipped", "why"]}.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "2.34.2"
SHA256 = "f288924cae4e29463698d6d60bc6a4da69c89185ad1e0bcc4104f584e960b9ed"
LIMIT_S = 400
CASE_LIMIT_S = 60
HERE = Path(__file__).resolve().parent
TIMEOUTS = "tests/test_requests.py::TestTimeout"
PARTS = (
    (TIMEOUTS,),
    ("tests/test_requests.py", "--deselect", TIMEOUTS),
    ("tests", "--ignore", "tests/test_requests.py"),
)


def main() -> int:
    """Fetch, unpack, run; 0 when every part ran to its end, whatever the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, metavar="DIR")
    parser.add_argument("--outcomes", type=Path, required=True, metavar="FILE")
    parser.add_argument("--baseline", action="store_true", help="with Requests' own adapter")
    given = parser.parse_args()
    given.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive(given.cache)) as tar:
            tar.extractall(folder, filter="data")
        outcomes = run(Path(folder) / f"requests-{VERSION}", baseline=given.baseline)
    given.outcomes.write_text(json.dumps(outcomes, indent=1, sort_keys=True) + "\n")
    return 0


def archive(cache: Path) -> Path:
    """The source distribution; pip refuses one whose hash is another."""
    name = f"requests-{VERSION}.tar.gz"
    kept = cache / SHA256 / name
    if kept.exists():
        return kept
    kept.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        wanted = Path(folder) / "requirements.txt"
        wanted.write_text(f"requests=={VERSION} --hash=sha256:{SHA256}\n")
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
                *("--no-binary", "requests", "--no-build-isolation", "--require-hashes"),
                *("--disable-pip-version-check", "--dest", folder, "-r", str(wanted)),
            ],
            check=True,
            timeout=LIMIT_S,
        )
        shutil.move(Path(folder) / name, kept)
    return kept


def run(root: Path, *, baseline: bool) -> dict[str, tuple[str, str]]:
    """The outcome of every case, by its node id."""
    # `trilane` comes from the PYTHONPATH; `requests` must be the installed one.
    path = os.pathsep.join(p for p in (str(HERE), os.environ.get("PYTHONPATH", "")) if p)
    environ = os.environ | {"PYTHONPATH": path, "SUITE_BASELINE": "1" if baseline else ""}
    running = []
    for number, part in enumerate(PARTS):
        report = root / f"outcomes-{number}.json"
        log = root / f"log-{number}.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "pytest", "-p", "mounting", "-p", "no:cacheprovider"),
                    *("--timeout", str(CASE_LIMIT_S), "-q", "--tb=short", *part),
                ],
                cwd=root,
                env=environ | {"SUITE_OUTCOMES": str(report)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        running.append((process, report, log))
    outcomes: dict[str, tuple[str, str]] = {}
    for process, report, log in running:
        try:
            code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            for other, _, _ in running:
                other.kill()
            code = -1
        if code not in {0, 1}:  # 1: cases failed
            raise SystemExit(f"pytest ended with {code}:\n{log.read_text(errors='replace')}")
        outcomes |= json.loads(report.read_text())
    return outcomes


if __name__ == "__main__":
    raise SystemExit(main())
