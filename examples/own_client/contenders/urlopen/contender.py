# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "hdrhistogram==0.10.8",
#     "pbr==7.1.3",
#     "setuptools==84.2.1",
# ]
#
# [tool.trilane]
# title = "urllib.request"
# versions = ["h1"]
# strategies = ["serial", "threads"]
# ///
"""Your client in the lab: here `urllib.request.urlopen`, which opens a connection for each request.

Put your own in its place: `fetch` makes one request and says what came back. The dependencies above
are the harness's; add those of your client, each with its version. The lab makes the environment.
"""

import ssl
import sys
import urllib.error
import urllib.request

# The harness lies where the lab lets this script look for modules.
from trilane_contender import Answer, Library, Plan, run


class Client:
    """One session: the plan says where it goes, and what it may trust."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._trusted = ssl.create_default_context(cafile=plan.cacert)

    def fetch(self, path: str) -> Answer:
        """One request. A failure is an exception, or a status that is no success."""
        plan = self._plan
        request = urllib.request.Request(
            plan.target + path, data=plan.body, headers=dict(plan.headers), method=plan.method
        )
        with urllib.request.urlopen(
            request, timeout=plan.timeout_s, context=self._trusted
        ) as response:
            return Answer(response.status, "h1", response.read())

    def close(self) -> None:
        """Nothing is kept open: that is what is measured."""


# What your client raises, and which kind of failure that is.
KINDS = ((urllib.error.HTTPError, "status"), (urllib.error.URLError, "connect"))

if __name__ == "__main__":
    sys.exit(run(Library(distribution=None, client=Client, kinds=KINDS)))
