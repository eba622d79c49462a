# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "anyio==4.16.0",
#     "attrs==26.1.0",
#     "brotli==1.2.1 ; platform_python_implementation == 'CPython'",
#     "brotlicffi==1.2.1.0 ; platform_python_implementation != 'CPython'",
#     "certifi==2026.10.18",
#     "cffi==2.1.1",
#     "chardet==7.7.0",
#     "click==8.5.1",
#     "colorama==0.4.6 ; sys_platform == 'win32'",
#     "cryptography==50.0.2",
#     "h11==0.16.0",
#     "h2==4.4.1",
#     "hatch-fancy-pypi-readme==25.1.0",
#     "hatchling==1.33.0",
#     "hpack==4.2.0",
#     "httpcore==1.0.9",
#     "httpx==0.28.1",
#     "hyperframe==6.1.0",
#     "idna==3.20",
#     "iniconfig==2.3.1",
#     "markdown-it-py==4.3.0",
#     "mdurl==0.1.2",
#     "outcome==1.3.0.post0",
#     "packaging==26.3",
#     "pathspec==1.1.1",
#     "pip==26.3",
#     "pluggy==1.7.0",
#     "pycparser==3.12 ; implementation_name != 'PyPy'",
#     "pygments==2.21.0",
#     "pytest==9.2.0",
#     "pytest-timeout==2.4.0",
#     "rich==13.9.4",
#     "sniffio==1.3.1",
#     "socksio==1.0.0",
#     "sortedcontainers==2.4.0",
#     "tomlkit==0.15.2",
#     "trio==0.35.0",
#     "trove-classifiers==2026.9.21.13",
#     "trustme==1.2.1",
#     "typing-extensions==4.16.0 ; python_full_version < '3.15'",
#     "uvicorn==0.54.0",
#     "zstandard==0.25.0",
# ]
# ///
"""Run HTTPX's own tests, with our transports or (`--baseline`) with HTTPX's own.

The tests are only in the source distribution: it is fetched by pip, checked by its hash and kept in
the folder `--cache`.

`--outcomes` gets {"cases": {"id": ["passed" | "failed" | "skipped", "why"]}, "versions":
{"HTTP/1.1": how many responses had that version}}.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "0.28.1"
SHA256 = "75e98c5f16b0f35b567856f597f06ff2270a374470a5c2392242528e3e3e42fc"
LIMIT_S = 400
CASE_LIMIT_S = 60
HERE = Path(__file__).resolve().parent


def main() -> int:
    """Fetch, unpack, run; 0 when the tests ran to their end, whatever the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, metavar="DIR")
    parser.add_argument("--outcomes", type=Path, required=True, metavar="FILE")
    parser.add_argument("--baseline", action="store_true", help="with HTTPX's own transports")
    given = parser.parse_args()
    given.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive(given.cache)) as tar:
            tar.extractall(folder, filter="data")
        run(Path(folder) / f"httpx-{VERSION}", given.outcomes, baseline=given.baseline)
    return 0


def archive(cache: Path) -> Path:
    """The source distribution; pip refuses one whose hash is another."""
    name = f"httpx-{VERSION}.tar.gz"
    kept = cache / SHA256 / name
    if kept.exists():
        return kept
    kept.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        wanted = Path(folder) / "requirements.txt"
        wanted.write_text(f"httpx=={VERSION} --hash=sha256:{SHA256}\n")
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
                *("--no-binary", "httpx", "--no-build-isolation", "--require-hashes"),
                *("--disable-pip-version-check", "--dest", folder, "-r", str(wanted)),
            ],
            check=True,
            timeout=LIMIT_S,
        )
        shutil.move(Path(folder) / name, kept)
    return kept


def run(root: Path, outcomes: Path, *, baseline: bool) -> None:
    """Run every test in one process; the plugin writes the outcomes."""
    # The tests import the installed library, not the one beside them.
    shutil.rmtree(root / "httpx")
    path = os.pathsep.join(p for p in (str(HERE), os.environ.get("PYTHONPATH", "")) if p)
    settings = {
        "PYTHONPATH": path,
        "SUITE_BASELINE": "1" if baseline else "",
        "SUITE_OUTCOMES": str(outcomes.resolve()),
    }
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "httpx_mounting", "-p", "no:cacheprovider"),
            *("--timeout", str(CASE_LIMIT_S), "-q", "--tb=short", "tests"),
        ],
        cwd=root,
        env=os.environ | settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode not in {0, 1}:  # 1: cases failed
        raise SystemExit(f"pytest ended with {done.returncode}:\n{done.stdout}")


if __name__ == "__main__":
    raise SystemExit(main())
