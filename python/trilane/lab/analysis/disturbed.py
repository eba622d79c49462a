"""Blocks that were disturbed from outside, which a run that ends once it is decided makes again.

A block is disturbed where other programs of this machine, or other machines of its host, took much
of the processor during one of its runs. It is made again as a whole, so that its arms meet the same
machine, once, and counts as it was made the second time, whatever came of either. That does not
favour a result: what is made again depends on what others did alone, and not on what was measured;
where arms do not differ, a disturbance is as likely in a run of the one as of the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from trilane.lab.analysis.paired import validity
from trilane.lab.model.sample import Sample

# Reasons that tell what others did. All others can follow from what the run itself did.
_FROM_OUTSIDE = frozenset({"steal", "others_busy"})
# Of so many blocks at most one is made again: a machine that is never calm still ends.
_ONE_OF = 4


def blocks(samples: Sequence[Sample], count: int) -> list[int]:
    """Those of the first `count` blocks to be made again, at most a quarter, the first ones first.

    A block that is among them stays among them when `count` grows.
    """
    found = {
        sample.block
        for sample in samples
        if sample.block < count and not sample.again and _disturbed(sample)
    }
    return sorted(found)[: count // _ONE_OF]


def judged(samples: Sequence[Sample]) -> list[Sample]:
    """The samples that count: of a block that was made again, once it is complete, the second."""
    first = [(sample.block, sample.arm, sample.slot) for sample in samples if not sample.again]
    second = {(sample.block, sample.arm, sample.slot) for sample in samples if sample.again}
    open_ = {block for block, arm, slot in first if (block, arm, slot) not in second}
    return [sample for sample in samples if sample.again != (sample.block in open_)]


def _disturbed(sample: Sample) -> bool:
    return any(reason.code in _FROM_OUTSIDE for reason in validity(sample).reasons)
