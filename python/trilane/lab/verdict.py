"""What the numbers allow to say: the winner, the limit that was met, and one sentence."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trilane.lab import stats
from trilane.lab.arms import TITLES
from trilane.lab.measures import CLIENT_CPU, RATE, Json

if TYPE_CHECKING:
    from trilane.lab.comparison import Sample

# METHOD: a worker above 95 % busy is saturated. A server thread shares its core with the kernel's
# network work, some of it not charged to it, so it counts as saturated a little earlier.
CLIENT_SATURATED = 0.95
SERVER_SATURATED = 0.90
_NUMBER = re.compile(r"[-+]?\d[\d.,]*")


def bound(samples: Sequence[Sample]) -> Json:
    """Who set the rate of an arm, from the CPU of both ends (medians over its runs)."""
    client = [max(s.run["cost"]["busy"]) for s in samples if s.run and s.run["cost"]["busy"]]
    server = [s.server["busy"] for s in samples if s.server and s.server.get("busy") is not None]
    client_busy = statistics.median(client) if client else None
    server_busy = statistics.median(server) if server else None
    limits = []
    if client_busy is not None and client_busy >= CLIENT_SATURATED:
        limits.append("client")
    if server_busy is not None and server_busy >= SERVER_SATURATED:
        limits.append("server")
    return {
        "bound": "+".join(limits) or ("waiting" if server_busy is not None else "elsewhere"),
        "client_busy": client_busy,
        "server_busy": server_busy,
    }


def bound_text(load: Mapping[str, Any]) -> str:
    """`bound` for people."""
    return {
        "client": "client-bound",
        "server": "server-bound",
        "client+server": "client- and server-bound",
        "waiting": "neither end was saturated",
        "elsewhere": "server- or network-bound",
    }[str(load["bound"])]


def merged(reasons: Sequence[str], runs: int) -> list[str]:
    """Reasons that differ only in their numbers told once, with how many runs gave them."""
    kinds: dict[str, list[str]] = {}
    for reason in reasons:
        kinds.setdefault(_NUMBER.sub("#", reason), []).append(reason)
    return [
        f"{same[0]} ({len(same)} of {runs} runs)" if runs > 1 else same[0]
        for same in kinds.values()
    ]


def winner(names: Sequence[str], pairs: Sequence[Mapping[str, Any]]) -> str | None:
    """The arm that beats every other one; None when no arm does."""
    for name in names:
        findings = [
            pair["finding"] == ("higher" if pair["arm"] == name else "lower")
            for pair in pairs
            if name in (pair["arm"], pair["to"])
        ]
        if findings and all(findings):
            return name
    return None


def validity(comparison: Json) -> Json:
    """Verdict on the whole comparison; each reason names its arm."""
    reasons = [
        f"{arm['title']}: {reason}"
        for arm in comparison["arms"]
        for reason in arm["validity"]["reasons"]
    ]
    verdicts = {arm["validity"]["verdict"] for arm in comparison["arms"]}
    floor = comparison["noise_floor"][RATE.name]
    told = comparison["plan"]["blocks_done"] >= stats.blocks_needed(1)
    if floor and told and not floor["low"] <= 1 <= floor["high"]:
        reasons.append(
            f"the baseline differed from itself: {floor['low']:.3f} to {floor['high']:.3f} times"
        )
        verdicts.add("suspect")
    if comparison["interrupted"]:
        plan = comparison["plan"]
        reasons.append(f"interrupted after {plan['blocks_done']} of {plan['blocks']} blocks")
        verdicts.add("suspect")
    order = ("invalid", "suspect", "valid")
    return {"verdict": next((v for v in order if v in verdicts), "valid"), "reasons": reasons}


def sentence(comparison: Json) -> str:
    """The verdict: who won, by how much, with what interval, at what cost."""
    arms = {arm["name"]: arm for arm in comparison["arms"]}
    if len(arms) == 1:
        return _alone(comparison, next(iter(arms.values())))
    if comparison["plan"]["blocks_done"] == 0:
        return "No verdict: no block was completed."
    broken = [arm["title"] for arm in arms.values() if arm["validity"]["verdict"] == "invalid"]
    best = comparison["ranking"]["winner"]
    if best is None:
        return _no_winner(comparison, broken)
    margins = " and ".join(_advantage(best, pair) for pair in _pairs_of(comparison, best))
    bounds = {arm["load"]["bound"] for arm in arms.values()}
    lead = f"{arms[best]['title']} won"
    if "client" in bounds or "client+server" in bounds:
        # A saturated client ranks itself: never sold as a property of the server.
        lead = f"Client-bound: this client got most requests/s over {arms[best]['title']}"
    return f"{lead}: {margins}{_cost(arms, best)}."


def _alone(comparison: Json, arm: Json) -> str:
    title = arm["title"]
    if arm["validity"]["verdict"] == "invalid":
        return f"{title} ran alone and invalid: {arm['validity']['reasons'][0]}."
    rate = arm["summary"][RATE.name]["median"]
    if rate is None:
        return "No verdict: no block was completed."
    why = "nothing else was asked for"
    if comparison["absent"]:
        why = "the server offers nothing to compare it with"
    return f"{title} reached {rate:,.0f} requests/s; {why}."


def _no_winner(comparison: Json, broken: Sequence[str]) -> str:
    plan = comparison["plan"]
    parts = [_loses(pair) for pair in _decided(comparison)]
    if broken:
        head = f"No winner: {' and '.join(broken)} ran invalid and cannot be ranked"
    else:
        pairs = comparison["ranking"]["pairs"]
        needed = stats.blocks_needed(len(pairs))
        if plan["blocks_done"] < needed:
            head = (
                f"No winner: {_blocks(plan['blocks_done'])} cannot show one, "
                f"{len(comparison['arms'])} arms need {needed}"
            )
        elif all(pair["finding"] == "no_difference" for pair in pairs):
            return (
                f"No difference beyond {100 * plan['margin']:.0f} % in requests/s: "
                + ", ".join(_equals(pair) for pair in pairs)
                + "."
            )
        else:
            open_pairs = [pair for pair in pairs if pair["finding"] == "undecided"]
            head = "No winner: undecided " + " and ".join(_against(p) for p in open_pairs)
            if not open_pairs:
                head = "No winner: the fastest arms do not differ"
    return "; ".join([head, *parts]) + "."


def _blocks(count: int) -> str:
    return "1 block" if count == 1 else f"{count} blocks"


def _against(pair: Json) -> str:
    return f"whether {TITLES[pair['arm']]} differs from {TITLES[pair['to']]} ({_range(pair)})"


def _range(pair: Json) -> str:
    return f"{pair['low']:.2f}–{pair['high']:.2f}×"


def _equals(pair: Json) -> str:
    return f"{TITLES[pair['arm']]} {_interval(pair)} of {TITLES[pair['to']]}"


def _decided(comparison: Json) -> list[Json]:
    return [
        pair
        for pair in comparison["ranking"]["pairs"]
        if pair["finding"] in ("higher", "lower", "no_difference")
    ]


def _pairs_of(comparison: Json, name: str) -> list[Json]:
    return [p for p in comparison["ranking"]["pairs"] if name in (p["arm"], p["to"])]


def _advantage(best: str, pair: Json) -> str:
    other, ratio, low, high = pair["to"], pair["ratio"], pair["low"], pair["high"]
    if pair["to"] == best:
        other, ratio, low, high = pair["arm"], 1 / ratio, 1 / high, 1 / low
    return f"{ratio:.2f}× {TITLES[other]} (95 % interval {low:.2f}–{high:.2f})"


def _loses(pair: Json) -> str:
    return f"{TITLES[pair['arm']]} is at {_interval(pair)} of {TITLES[pair['to']]}"


def _interval(pair: Json) -> str:
    return f"{pair['ratio']:.2f}× (95 % interval {pair['low']:.2f}–{pair['high']:.2f})"


def _cost(arms: Mapping[str, Json], best: str) -> str:
    costs = {name: arm["summary"][CLIENT_CPU.name]["median"] for name, arm in arms.items()}
    mine = costs.pop(best)
    if mine is None or any(cost is None for cost in costs.values()):
        return ""
    others = " and ".join(f"{cost:.3g} over {TITLES[name]}" for name, cost in costs.items())
    return f", at {mine:.3g} µs of client CPU per request against {others}"
