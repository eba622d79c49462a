"""`python -m docs.site`: build build/site, and refuse broken links and whatever needs a network."""

from __future__ import annotations

import subprocess
import sys

from docs.site import links, pages

SITE = pages.ROOT / "build" / "site"


def main() -> int:
    """Build the site; the exit code."""
    pages.write(pages.ROOT / "build" / "pages")
    # Without this it keeps pages of an earlier build.
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(command, cwd=pages.ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        return 1
    problems = links.problems(SITE)
    sys.stderr.writelines(f"{problem}\n" for problem in problems)
    if not problems:
        sys.stdout.write(f"built {SITE / 'index.html'}\n")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
