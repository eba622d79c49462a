"""What an experiment must be beside well-formed; `BadExperiment` names the key that is wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from trilane.lab.experiment import networks
from trilane.lab.experiment.bad_experiment import BadExperiment, Key, at_least
from trilane.lab.experiment.check_arm import check_arm
from trilane.lab.experiment.check_workload import check_workload
from trilane.lab.experiment.factors import BadFactor, ByFactor
from trilane.lab.experiment.form import Answer, Form, Quick, Sweep
from trilane.lab.experiment.vocabulary import MEASURES, SWEEPS
from trilane.lab.experiment.words import is_not, meant
from trilane.lab.experiment.workload import ArmSpec, Value
from trilane.lab.model.arm import ENGINE
from trilane.lab.model.measures import BY_NAME, CAPACITY
from trilane.quantity import value_text

if TYPE_CHECKING:
    from trilane.lab.experiment.experiment import Experiment, Machines

NAME = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*")
SHORTEST_S = 1.0
"""A run takes longer."""
SHORTEST_TURN_S = 0.001
LONGEST_TURN_S = 10.0
NAME_TOLD = "use small letters and digits, with single - . or _ between them"


def check(experiment: Experiment) -> None:
    """Refuse what cannot be run or would mean nothing."""
    _name("is not a name", experiment.name, ("name",))
    for part in ("title", "question"):
        if not getattr(experiment, part).strip():
            raise BadExperiment("is empty", (part,))
    _cluster(experiment.cluster)
    if not experiment.forms:
        raise BadExperiment("there is none: add [forms.fair]", ("forms",))
    for name, form in experiment.forms.items():
        key: Key = ("forms", name)
        _name("is not a name of a form", name, key)
        if form.name != name:
            raise BadExperiment(f"is kept under {name!r}, but named {form.name!r}", key)
        _form(form, key)


def _cluster(machines: Machines | None) -> None:
    if machines is None:
        return
    at_least(machines.workers, 1, ("cluster", "workers"))
    if machines.server is not None:
        _name("is not a label", machines.server, ("cluster", "server"))
        if not machines.clients:
            problem = "is missing: beside server say which machines make the load"
            raise BadExperiment(problem, ("cluster", "clients"))
    for index, label in enumerate(machines.clients):
        where = ("cluster", "clients", index)
        _name("is not a label", label, where)
        if label in machines.clients[:index]:
            raise BadExperiment(f"{label!r} is there already", where)
        if label == machines.server:
            problem = f"{label!r} is the label of the machine that has the servers"
            raise BadExperiment(problem, where)


def _form(form: Form, key: Key) -> None:
    _measures(form, key)
    if not 0 < form.margin < 1:
        problem = f"{form.margin:g} is not a share above 0 and below 1, such as 0.05"
        raise BadExperiment(problem, (*key, "margin"))
    for part in ("blocks", "publish_blocks"):
        at_least(getattr(form.stats, part), 1, (*key, "stats", part))
    if form.stats.within_s is not None:
        at_least(form.stats.within_s, SHORTEST_S, (*key, "stats", "within"))
        if not form.stats.until_decided:
            problem = "is for blocks until it is decided: add until_decided = true"
            raise BadExperiment(problem, (*key, "stats", "within"))
    at_least(form.threads, 1, (*key, "threads"))
    check_workload(form.workload, form.sweep, (*key, "workload"))
    if form.sweep is not None:
        _sweep(form.sweep, (*key, "sweep"))
    _arms(form, key)
    _turns(form, (*key, "turn"))
    if form.sweep is not None:
        _on_networks(form, form.sweep, (*key, "sweep", "values"))
        _crossings(form, form.sweep, (*key, "sweep", "crossings"))
    points = [point for _, point in form.points()]
    _compared(form, points, (*key, "pairs"))
    _by_factor(form, points, (*key, "compare"))
    if form.answer is not None:
        _answer(form, points, form.answer, (*key, "answer"))
    _claims(form, key)
    _quick(form, (*key, "quick"))


def _measures(form: Form, key: Key) -> None:
    if not form.measures:
        raise BadExperiment("is empty: name what is compared", (*key, "measures"))
    for index, measure in enumerate(form.measures):
        where = (*key, "measures", index)
        if measure not in MEASURES:
            raise BadExperiment(is_not("measure", measure, MEASURES), where)
        if measure == CAPACITY.name and not form.workload.search:
            problem = f"{measure!r} is what searches find: type trilane race --search 'p99<10ms'"
            raise BadExperiment(problem, where)
        if measure in form.measures[:index]:
            raise BadExperiment(f"{measure!r} is there already", where)
    _shown(form.rank, form, (*key, "rank"))
    _own(form.rank, (*key, "rank"))


def _shown(measure: str, form: Form, key: Key) -> None:
    if measure not in MEASURES:
        raise BadExperiment(is_not("measure", measure, MEASURES), key)
    if measure not in form.measures:
        raise BadExperiment(f"{measure!r} is not among the measures of the form: add it", key)


def _own(measure: str, key: Key) -> None:
    if BY_NAME[measure].shared:
        raise BadExperiment(
            f"{measure!r} counts what all programs of the machine send, and decides nothing: "
            "name another measure",
            key,
        )


def _turns(form: Form, key: Key) -> None:
    """Refuse turns where runs do something else than send as much as they can for a time."""
    if form.turn_s is None:
        return
    if not SHORTEST_TURN_S <= form.turn_s <= LONGEST_TURN_S:
        raise BadExperiment(f"{form.turn_s:g} s is no length of a turn: take 1ms to 10s", key)
    problem = next(filter(None, map(_no_turns, form.arms)), None)
    if form.workload.duration_s is None or form.workload.search:
        problem = "its workload has no duration"
    if problem is not None:
        raise BadExperiment(f"runs cannot take turns: {problem}: leave it out", key)


def _no_turns(arm: ArmSpec) -> str | None:
    """Why runs of an arm cannot take turns; None where they can."""
    reasons = {
        f"is not of client = {ENGINE!r} with strategy = 'load'": arm.client != ENGINE
        or arm.strategy != "load",
        "has a rate": arm.rate is not None,
        "is on an emulated network": bool(arm.network),
        "has a server that is not started here": "://" in arm.server,
    }
    told = next((reason for reason, holds in reasons.items() if holds), None)
    return told and f"{arm.name} {told}"


def _arms(form: Form, key: Key) -> None:
    if not form.arms:
        raise BadExperiment(
            f"has no arms: add [[{key[0]}.{key[1]}.arms]] or [{key[0]}.{key[1]}.matrix]", key
        )
    seen: set[str] = set()
    values = form.sweep.values if form.sweep else None
    for index, arm in enumerate(form.arms):
        where = (*key, "arms", index)
        _name("is not a name of an arm", arm.name, (*where, "name"))
        if arm.name in seen:
            raise BadExperiment(
                f"there are two arms named {arm.name!r}: name one of them", (*where, "name")
            )
        seen.add(arm.name)
        check_arm(arm, form.workload.kind, values, where)
        if form.workload.flags and arm.client != ENGINE:
            problem = f"flags of the workload are for client = {ENGINE!r}: leave them out"
            raise BadExperiment(problem, (*where, "client"))
    # Either name may be the misspelled one: those of a matrix are made of what it lists.
    made = "; a matrix names its arms by the client, version, … that it lists: check those, too"
    _known(form.baseline, seen, (*key, "baseline"), made)
    if form.sweep is not None:
        for index, value in enumerate(form.sweep.values):
            if not _running(form, value):
                problem = f"no arm runs at {value_text(value)}"
                raise BadExperiment(problem, (*key, "sweep", "values", index))
    varied = form.sweep is not None and form.sweep.key in {"rtt", "network"}
    for index, arm in enumerate(form.arms):
        if arm.congestion_control and not arm.network and not varied:
            problem = 'is that of both ends of a network: add network = "rtt=40ms"'
            raise BadExperiment(problem, (*key, "arms", index, "congestion_control"))


def _on_networks(form: Form, sweep: Sweep, key: Key) -> None:
    for index, value in enumerate(sweep.values):
        for arm in form.at(value).arms:
            if problem := networks.problem(arm.network):
                raise BadExperiment(problem, (*key, index))


def _sweep(sweep: Sweep, key: Key) -> None:
    if sweep.key not in SWEEPS:
        raise BadExperiment(
            f"{sweep.key!r} cannot be swept{meant(sweep.key, SWEEPS)}", (*key, "key")
        )
    if not sweep.values:
        raise BadExperiment("values is missing or empty: add values = […]", key)
    for index, value in enumerate(sweep.values):
        where = (*key, "values", index)
        if value in sweep.values[:index]:
            raise BadExperiment(f"{value_text(value)} is there already", where)
        if isinstance(value, str):
            continue
        if sweep.key != "rtt" and not float(value).is_integer():
            raise BadExperiment(f"takes whole numbers, not {value:g}", where)
        at_least(value, 1 if sweep.key in {"count", "in_flight"} else 0, where)


def _crossings(form: Form, sweep: Sweep, key: Key) -> None:
    if sweep.crossings and sweep.key == "network":
        raise BadExperiment("networks have no order in which arms could cross: leave it out", key)
    names = [arm.name for arm in form.arms]
    for index, pair in enumerate(sweep.crossings):
        for place, name in enumerate(pair):
            _known(name, names, (*key, index, place))
        if pair[0] == pair[1]:
            raise BadExperiment("an arm cannot cross itself", (*key, index))
        shared = [value for value in sweep.values if _running(form, value).issuperset(pair)]
        if len(shared) < 2:
            raise BadExperiment(
                "a crossing needs two values of the sweep at which both arms run", (*key, index)
            )


def _compared(form: Form, points: Sequence[Form], key: Key) -> None:
    for index, pair in enumerate(form.pairs):
        _meeting(form, points, pair, (*key, index))
        if pair in form.pairs[:index]:
            raise BadExperiment("is there already", (*key, index))


def _meeting(form: Form, points: Sequence[Form], pair: tuple[str, str], key: Key) -> None:
    """Refuse two arms that cannot be compared with each other."""
    names = [arm.name for arm in form.arms]
    for place, name in enumerate(pair):
        _known(name, names, (*key, place))
    if pair[0] == pair[1]:
        raise BadExperiment("an arm is compared with itself", key)
    there = ({arm.name for arm in point.arms} for point in points)
    if not any(arms.issuperset(pair) for arms in there):
        raise BadExperiment("there is no value of the sweep at which both run", key)


def _answer(form: Form, points: Sequence[Form], answer: Answer, key: Key) -> None:
    if (answer.compare is None) is (answer.measure is None):
        raise BadExperiment("takes one of compare and measure", key)
    part = "compare" if answer.measure is None else "measure"
    of_networks = form.sweep is not None and form.sweep.key == "network"
    if answer.pair is not None:
        _meeting(form, points, answer.pair, (*key, part))
        if of_networks and form.pairs and answer.pair not in form.named_pairs():
            raise BadExperiment("is not among the pairs of the form: add it", (*key, part))
        return
    if of_networks:
        problem = 'of networks is a pair of arms: write compare = ["one", "other"]'
        raise BadExperiment(problem, (*key, part))
    if answer.measure is not None:
        _shown(answer.measure, form, (*key, part))
    elif answer.compare not in form.compare:
        problem = f"{answer.compare!r} is not among the comparisons of the form: add it to compare"
        raise BadExperiment(problem, (*key, part))


def _by_factor(form: Form, points: Sequence[Form], key: Key) -> None:
    for index, text in enumerate(form.compare):
        where = (*key, index)
        try:
            asked = ByFactor.parse(text)
        except BadFactor as error:
            raise BadExperiment(str(error), where) from None
        if text in form.compare[:index]:
            raise BadExperiment(f"{text!r} is there already", where)
        if not any(asked.pairs(point.arms, point.baseline) for point in points):
            varied = " and ".join(asked.varied)
            raise BadExperiment(
                f"no two arms differ in {varied} alone: leave it out, or add an arm that does",
                where,
            )


def _claims(form: Form, key: Key) -> None:
    for index, row in enumerate(form.published):
        where = (*key, "published", index)
        _pair(form, row.measure, row.arm, row.to, where)
        if not all(0 < value < math.inf for value in row.values):
            raise BadExperiment("takes two numbers above 0", (*where, "values"))
        if form.sweep is not None and row.at is None:
            raise BadExperiment("at is missing: say at which value of the sweep", where)
        _at(form, row.at, (row.arm, row.to), (*where, "at"))
    for index, gate in enumerate(form.expect):
        where = (*key, "expect", index)
        _pair(form, gate.measure, gate.arm, gate.to, where)
        _own(gate.measure, (*where, "measure"))
        if not 0 <= gate.low < gate.high:
            raise BadExperiment(
                f"{gate.low:g} is not below high = {gate.high:g}, both from 0 on", (*where, "low")
            )
        _at(form, gate.at, (gate.arm, gate.to), (*where, "at"))


def _pair(form: Form, measure: str, arm: str, to: str, key: Key) -> None:
    _shown(measure, form, (*key, "measure"))
    names = [known.name for known in form.arms]
    _known(arm, names, (*key, "arm"))
    _known(to, names, (*key, "to"))
    if arm == to:
        raise BadExperiment(f"{arm!r} is compared with itself", (*key, "to"))


def _at(form: Form, value: Value | None, pair: Iterable[str], key: Key) -> None:
    if value is None:
        return
    if form.sweep is None:
        raise BadExperiment("there is no sweep: leave it out", key)
    _known(value, form.sweep.values, key)
    for name in pair:
        if name not in _running(form, value):
            raise BadExperiment(f"{name} does not run at {value_text(value)}", key)


def _quick(form: Form, key: Key) -> None:
    quick = form.quick
    if quick is None:
        return
    for part in ("blocks", "count", "repeat"):
        at_least(getattr(quick, part), 1, (*key, part))
    if problem := networks.problem(quick.network or ""):
        raise BadExperiment(problem, (*key, "network"))
    _quick_arms(form, quick, key)
    _quick_length(form, quick, key)
    _quick_is_less(form, quick, key)
    if quick.values is None:
        return
    if form.sweep is None:
        raise BadExperiment("there is no sweep: leave it out", (*key, "values"))
    _sweep(Sweep(form.sweep.key, quick.values, form.sweep.unit), key)
    if not form.quickened().arms:
        raise BadExperiment("none of the arms runs at any of them", (*key, "values"))


def _quick_arms(form: Form, quick: Quick, key: Key) -> None:
    names = [arm.name for arm in form.arms]
    if quick.arms is not None and not quick.arms:
        raise BadExperiment("is empty: name arms, or leave it out", (*key, "arms"))
    for index, name in enumerate(quick.arms or ()):
        _known(name, names, (*key, "arms", index))
        if name in (quick.arms or ())[:index]:
            raise BadExperiment(f"{name!r} is there already", (*key, "arms", index))


def _quick_length(form: Form, quick: Quick, key: Key) -> None:
    timed = form.workload.duration_s is not None
    swept = form.sweep is not None and form.sweep.key == "count"
    if quick.count is not None and (swept or timed):
        way = "values" if swept else "duration"
        raise BadExperiment(f"the form does not run by count: use {way}", (*key, "count"))
    if quick.duration_s is not None and not timed:
        raise BadExperiment("the form does not run by duration: use count", (*key, "duration"))
    if quick.duration_s is not None and quick.duration_s <= 0:
        raise BadExperiment("must be above 0", (*key, "duration"))


def _quick_is_less(form: Form, quick: Quick, key: Key) -> None:
    """Refuse what would make the form larger: `--quick` shortens runs and leaves some out."""
    work = form.workload
    for part, most in (
        ("blocks", form.stats.blocks),
        ("count", work.count),
        ("duration_s", work.duration_s),
        ("repeat", work.repeat),
    ):
        value = getattr(quick, part)
        if value is not None and most is not None and value > most:
            raise BadExperiment(
                f"{value:g} is more than the {most:g} of the form: --quick only makes it smaller",
                (*key, part.removesuffix("_s")),
            )


def _running(form: Form, value: Value) -> set[str]:
    return {arm.name for arm in form.arms if arm.at is None or value in arm.at}


def _name(problem: str, name: str, key: Key) -> None:
    if not NAME.fullmatch(name):
        raise BadExperiment(f"{name!r} {problem}: {NAME_TOLD}", key)


def _known(
    word: object, known: Collection[object] | Mapping[str, object], key: Key, more: str = ""
) -> None:
    if word not in known:
        text = str(word) if isinstance(word, str) else f"{word:g}"
        names = [name if isinstance(name, str) else f"{name:g}" for name in known]
        what = "is not an arm" if isinstance(word, str) else "is not a value of the sweep"
        raise BadExperiment(f"{text!r} {what}{meant(text, names)}{more}", key)
