"""Whether the arms of a comparison read the same body.

Arms whose bodies differ are never ranked, whatever measured them (METHOD §3). The engine
tells the first body of its first URL; a client under test the sum of the CRC-32 of all bodies, from
which that of one URL's body follows. Answers of a service differ by format, and are checked
against a reading in their own format instead (`clients.call_reference`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trilane.lab.model.arm import Arm
from trilane.lab.model.run import Run


@dataclass(frozen=True, slots=True)
class Body:
    """The body that a run read, once or many times."""

    bytes: int
    crc32: str | None
    """Eight hexadecimal digits; None where the client only counted."""

    def __str__(self) -> str:
        size = f"{self.bytes:,} {'byte' if self.bytes == 1 else 'bytes'}"
        return size if self.crc32 is None else f"{size} with CRC-32 {self.crc32}"

    def may_be(self, other: Body) -> bool:
        """Whether nothing that both tell differs."""
        return self.bytes == other.bytes and (
            self.crc32 == other.crc32 or None in {self.crc32, other.crc32}
        )


def of_run(run: Run) -> Body | None:
    """The one body that a run read; None where the run does not tell it."""
    told = run.target.body
    if told is not None:
        return Body(told.bytes, told.crc32)
    content, request, ok = run.content, run.plan.request, run.requests.ok
    # What was sent with a coding is told decoded here and as it came by the engine.
    if content is None or ok == 0 or request.urls != 1 or request.coding:
        return None
    size, rest = divmod(content.bytes, ok)
    if content.digest is None:
        return None if rest else Body(size, None)
    crc, left = divmod(content.digest, ok)
    # Bodies that differ among each other have no one sum.
    return None if rest or left else Body(size, f"{crc:08x}")


def of_runs(runs: Sequence[Run]) -> list[Body]:
    """The bodies that runs read, of those that tell it."""
    return [body for run in runs if (body := of_run(run)) is not None]


def of_arm(arm: Arm, runs: Sequence[Run]) -> list[Body]:
    """The bodies that runs of an arm read; none of a call, whose answers differ by format."""
    return [] if arm.message is not None else of_runs(runs)


def differ(first: Sequence[Body], second: Sequence[Body]) -> bool:
    """Whether the runs of two arms read different bodies.

    A page that changes from one request to the next has other sums in every run, and then its sizes
    alone can tell: they do when those of one arm all lie below those of the other.
    """
    if not first or not second or any(one.may_be(other) for one in first for other in second):
        return False
    sizes = [[body.bytes for body in bodies] for bodies in (first, second)]
    if max(sizes[0]) < min(sizes[1]) or max(sizes[1]) < min(sizes[0]):
        return True
    return all(len(bodies) > 1 and len(set(bodies)) == 1 for bodies in (first, second))


def groups(arms: Sequence[Arm], runs: Mapping[str, Sequence[Run]]) -> list[list[Arm]]:
    """The arms by body, in their order; one group where no two are known to differ.

    `runs` holds the runs of each arm by its name.
    """
    read = {arm.name: of_arm(arm, runs[arm.name]) for arm in arms}
    found: list[list[Arm]] = []
    for arm in arms:
        same = (g for g in found if not any(differ(read[arm.name], read[o.name]) for o in g))
        group = next(same, None)
        if group is None:
            found.append([arm])
        else:
            group.append(arm)
    return found


def reason(found: Sequence[Sequence[Arm]], runs: Mapping[str, Sequence[Run]]) -> str | None:
    """Why arms of different `groups` are not ranked; None where there is one group."""
    if len(found) < 2:
        return None
    told = [
        f"{' and '.join(arm.title for arm in group)} read "
        f"{next(body for arm in group for body in of_arm(arm, runs[arm.name]))}"
        for group in found
    ]
    return f"different bodies are never ranked: {', '.join(told)}"
