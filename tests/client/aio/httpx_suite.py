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
import re
import shutil
from pathlib import Path

from client.suites import Part, Source

SOURCE = Source(
    "httpx", "0.28.1", "75e98c5f16b0f35b567856f597f06ff2270a374470a5c2392242528e3e3e42fc"
)
HERE = Path(__file__).resolve().parent
# What stays in `make test`: clients with servers that run.
FEW = ("tests/client/test_client.py", "tests/client/test_async_client.py", "tests/test_api.py")


def main(library: str = "httpx") -> int:
    """Fetch, unpack, run; 0 when the tests ran to their end, whatever the outcomes.

    `library` is what is tested: for HTTPX2, which publishes no tests, its name stands in the cases
    of HTTPX wherever HTTPX's did.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, metavar="DIR")
    parser.add_argument("--outcomes", type=Path, required=True, metavar="FILE")
    parser.add_argument("--baseline", action="store_true", help="with transports of the library's")
    parser.add_argument("--few", action="store_true", help="those of `make test`")
    given = parser.parse_args()
    settings = {"SUITE_BASELINE": "1" if given.baseline else "", "SUITE_LIBRARY": library}
    with SOURCE.unpacked(given.cache) as root:
        # The tests import the installed library, not the one beside them.
        shutil.rmtree(root / "httpx")
        if library != "httpx":
            for case in (root / "tests").rglob("*.py"):
                renamed = re.sub(r"\b(httpx|httpcore)\b", r"\g<1>2", case.read_text())
                case.write_text(renamed)
        plugin = HERE / "httpx_mounting.py"
        cases = FEW if given.few else ("tests",)
        Part(root, plugin, cases, given.outcomes, settings=settings).finish()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
