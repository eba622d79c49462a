# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "anyio==4.16.0",
#     "attrs==26.1.0",
#     "backports-zstd==1.8.0 ; python_full_version < '3.14'",
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
#     "httpcore2==2.16.2",
#     "httpx2==2.16.2",
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
#     "truststore==0.10.5",
#     "trove-classifiers==2026.9.21.13",
#     "trustme==1.2.1",
#     "typing-extensions==4.16.0 ; python_full_version < '3.15'",
#     "uvicorn==0.54.0",
#     "zstandard==0.25.0",
# ]
# ///
"""Run HTTPX's own tests with HTTPX2 in its place, on our transports or (`--baseline`) on its own.

HTTPX2 publishes its tests nowhere but in its repository; it began as HTTPX, whose tests these are.
See `httpx_suite`.
"""

from __future__ import annotations

from client.aio.httpx_suite import main

if __name__ == "__main__":
    raise SystemExit(main("httpx2"))
