# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "aiofiles==25.1.0",
#     "anyio==4.16.0",
#     "attrs==26.1.0",
#     "blinker==1.9.0",
#     "brotli==1.2.1 ; platform_python_implementation == 'CPython'",
#     "certifi==2026.10.18",
#     "cffi==2.1.1 ; platform_python_implementation != 'PyPy'",
#     "click==8.5.1",
#     "colorama==0.4.6 ; sys_platform == 'win32'",
#     "cryptography==50.0.2",
#     "flask==3.1.3",
#     "h11==0.16.0",
#     "h2==4.4.1",
#     "hatch-vcs==0.5.0",
#     "hatchling==1.33.0",
#     "hpack==4.2.0",
#     "httpcore==1.0.9",
#     "httpx==0.28.1",
#     "hypercorn==0.18.0",
#     "hyperframe==6.1.0",
#     "idna==3.20",
#     "iniconfig==2.3.1",
#     "itsdangerous==2.2.0",
#     "jinja2==3.1.6",
#     "markupsafe==3.0.4",
#     "outcome==1.3.0.post0",
#     "packaging==26.3",
#     "pathspec==1.1.1",
#     "pip==26.3",
#     "pluggy==1.7.0",
#     "priority==2.0.0",
#     "pycparser==3.12 ; implementation_name != 'PyPy'",
#     "pygments==2.21.0",
#     "pyopenssl==26.4.0",
#     "pysocks==1.7.1",
#     "pytest==9.2.0",
#     "pytest-socket==0.8.1",
#     "pytest-timeout==2.4.0",
#     "quart==0.22.0 ; python_full_version < '3.13'",
#     "quart==0.23.1 ; python_full_version >= '3.13'",
#     "quart-trio==0.12.0 ; python_full_version < '3.13'",
#     "quart-trio==0.13.0 ; python_full_version >= '3.13'",
#     "setuptools==84.2.1",
#     "setuptools-scm==10.3.4",
#     "sniffio==1.3.1",
#     "sortedcontainers==2.4.0",
#     "tomlkit==0.15.2",
#     "trio==0.35.0",
#     "trove-classifiers==2026.9.21.13",
#     "trustme==1.2.1",
#     "typing-extensions==4.16.0 ; python_full_version < '3.15'",
#     "urllib3==2.8.0",
#     "vcs-versioning==2.6.0",
#     "werkzeug==3.1.9",
#     "wsproto==1.3.2",
# ]
# ///
"""Run urllib3's own tests, with `trilane.client.http` or (`--baseline`) with `http.client`.

The tests are only in the source distribution: it is fetched by pip, checked by its hash and kept in
the folder `--cache`. They run in three processes at once, as many of them wait.

`--outcomes` gets {"cases": {"id": ["passed" | "failed" | "skipped", "why"]}, "versions": {"11": how
many responses had that version}}.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from client.suites import Source, run

SOURCE = Source(
    "urllib3", "2.8.0", "63bf2ead4c879426ebf22ef2a781eeb4aa3b4ae798a0435506f8687fd5bb9b63"
)
CASE_LIMIT_S = 15
HERE = Path(__file__).resolve().parent
SLOW = ("test/with_dummyserver/test_socketlevel.py", "test/with_dummyserver/test_https.py")
# Its threads wait for one another for ever where the network has no 240.0.0.0.
HANGS = "test_http2_probe_blocked_per_thread"
PARTS: tuple[tuple[str, ...], ...] = (
    SLOW[:1],
    (*SLOW[1:], "-k", f"not {HANGS}"),
    # Those of Emscripten run in a browser.
    ("test", *(f"--ignore={path}" for path in (*SLOW, "test/contrib/emscripten"))),
)
# What stays in `make test`: pools and managers, with urllib3's own server, but for those that wait.
FEW: tuple[tuple[str, ...], ...] = (
    (
        "test/with_dummyserver/test_poolmanager.py",
        "test/with_dummyserver/test_chunked_transfer.py",
        *("-k", "not preserve"),
    ),
)


def main() -> int:
    """Fetch, unpack, run; 0 when every part ran to its end, whatever the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, metavar="DIR")
    parser.add_argument("--outcomes", type=Path, required=True, metavar="FILE")
    parser.add_argument("--baseline", action="store_true", help="with http.client")
    parser.add_argument("--few", action="store_true", help="those of `make test`")
    given = parser.parse_args()
    settings = {"SUITE_BASELINE": "1" if given.baseline else ""}
    with SOURCE.unpacked(given.cache) as root:
        # The tests import the installed library, not the one beside them.
        shutil.rmtree(root / "src")
        parts = [(cases, settings) for cases in (FEW if given.few else PARTS)]
        found = run(root, HERE / "mounting.py", parts, case_limit_s=CASE_LIMIT_S)
    given.outcomes.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
