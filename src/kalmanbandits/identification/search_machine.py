"""`search.Search` for many learners side by side: cut where a model is improved.

On a GPU the steps of expectation–maximisation are a kernel of their own, in which models of one dimension
are improved together. So a search is a machine: `go_on_searching` goes on with it until a job is to be done,
and once more when that has been done. What it does in between is what `Search` does, number by number.

`m` is the memory of a learner, `f` what it keeps during a fit: a record with the fields of `search_fields`.
"""

from __future__ import annotations

from typing import Any

from kalmanbandits.compilation import jit, routine
from kalmanbandits.identification.arrays import Parameters
from kalmanbandits.identification.search import (
    ANYWHERE,
    CHALLENGERS,
    CORRELATED,
    CURRENT,
    MARGIN,
    PATIENCE,
    PROOF_STEPS,
    PROOF_WORK,
    SHARE,
    STEPS,
)
from kalmanbandits.identification.search_machine_models import (
    copy_model_in_place,
    draw_model_in_place,
    recall_levels,
)
from kalmanbandits.identification.subspace import ARMS, ROWS, realise

# Jobs: steps of expectation–maximisation, the likelihood, the end of a fit, and `past.carry_past`.
NOTHING, IMPROVE, FILTER, FINISH, CARRY = range(5)
CORRELATE = 101  # `subspace.observability`, of arms that have a `place`, into `V`
# Places of a job's numbers.
KIND, MODEL, DIMENSION, FIRST, CELLS, STEPS_, REPEATS, LEAVING, ARMS_ = range(9)
NUMBERS = 9

REACH = 3  # place of the cells' reach among its results, of which the first two are likelihoods

# Where a machine stands: what is done next.
SEARCH, POLISHED, VALUED, CHALLENGE, CHALLENGED, CARRIED, CARRIED_ON, PROVE, PROVING, PROVED = range(10)
DECIDED, CORRELATING, ENDED = 10, 11, 12

LAST = CHALLENGERS[-1]


def search_fields(k: int, D: int) -> list[tuple[Any, ...]]:
    """What a search keeps, of k arms and up to D dimensions."""
    return [
        ("at", "i8"),
        ("challenger", "i8"),
        ("left", "i8"),  # searches
        ("n", "i8"),  # cells
        ("arms", "i8"),  # that take part
        ("first", "i8"),  # of the recent ones
        ("largest", "i8"),
        ("work", "f8"),
        ("behind", "f8"),
        ("pace", "f8"),
        ("recent", "f8"),
        ("count", "f8", (k,)),
        ("late", "f8", (k,)),  # the same of the recent cells
        ("mean", "f8", (k,)),
        ("spread", "f8", (k,)),
        ("squares", "f8", (k,)),
        ("place", "i8", (k,)),
        ("numbers", "f8", (2 * D + k * D + 1,)),
        ("places", "i8"),  # of arms
        ("height", "i8"),  # of the observability matrix
        ("V", "f8", (max(ROWS, 2 * min(k, ARMS)), D)),
        ("M", "f8", (4, D + 1, D + 1)),
        ("r", "f8", (1, D + 1)),
    ]


@jit
def _penalty(d: Any, counts: Any) -> Any:
    total = 0.0
    for a in range(counts.shape[0]):
        total += d * counts[a] / (counts[a] + d)
    return total + 0.5 * d * (d + 1)


@routine
def _begin(m: Any, f: Any, i: Any) -> None:
    """`Search.begin`: a new challenger; one from correlations has to wait for them."""
    d, turn = m.d[CURRENT], m.drawn[1]
    if i == CORRELATED:
        draw_model_in_place(m, f, i, 1 + (d + turn) % min(f.largest, d + 3), 0)
        _place_arms(f)
    elif turn % 2 and d < f.largest:
        copy_model_in_place(m, CURRENT, i, False)
        draw_model_in_place(m, f, i, min(d + 1 + (1 if turn % 3 > 0 else 0), f.largest), d)
    else:
        draw_model_in_place(m, f, i, 1 + (m.drawn[0] // 3) % min(f.largest, d + 2), 0)


@routine
def _place_arms(f: Any) -> None:
    """Of `Search.begin_from_correlations`: the arms seen most."""
    k = f.count.shape[0]
    f.places = 0
    for arm in range(k):
        before = 0  # arms seen more often, or as often and named before
        for other in range(k):
            more = f.count[other] > f.count[arm]
            before += more or (f.count[other] == f.count[arm] and other < arm)
        f.place[arm] = -1
        if f.count[arm] > 0 and before < ARMS:
            f.place[arm] = f.places
            f.places += 1


@routine
def _realise(m: Any, f: Any, i: Any) -> None:
    """The model that correlations lead to."""
    p = Parameters(m.G[i], m.Q[i], m.C[i], m.mu[i], m.s2[i], m.U[i], m.prior[i], m.past[i])
    realise(m.d[i], p, f.V[: f.height], f.place, f.places, f.mean, f.spread, f)


@jit
def ask_for(job: Any, kind: Any, m: Any, f: Any, i: Any, first: Any, n: Any) -> None:
    """Note a job for model `i`, on n cells."""
    job[KIND], job[MODEL], job[DIMENSION], job[FIRST], job[CELLS] = kind, i, m.d[i], first, n
    job[STEPS_], job[REPEATS], job[LEAVING], job[ARMS_] = 1, 1, 0, f.arms


@jit
def _ask_for_steps(job: Any, m: Any, f: Any, i: Any, first: Any, n: Any, work: Any, most: Any) -> None:
    """`Search.polish`: steps that are worth `work`."""
    ask_for(job, IMPROVE, m, f, i, first, n)
    d = float(m.d[i])
    job[STEPS_] = max(1, min(most, int(work / ((120.0 + 15.0 * d**2 + 1.2 * d**3) * n))))


@routine
def go_on_searching(m: Any, f: Any, job: Any, result: Any) -> Any:
    """Go on with a search; returns whether a job is to be done, in `job`. `result` is the last one's."""
    while True:
        i = f.challenger
        if f.at == SEARCH:
            if m.d[CURRENT] == 0:
                draw_model_in_place(m, f, CURRENT, min(2, f.largest), 0)
            _ask_for_steps(job, m, f, CURRENT, 0, f.n, SHARE * f.work, STEPS)
            f.at = POLISHED
            return True
        if f.at == POLISHED:
            m.value[CURRENT] = result[1] - _penalty(m.d[CURRENT], f.count)
            f.challenger, f.at = ANYWHERE, CHALLENGE
            if f.first > 0:
                ask_for(job, FILTER, m, f, CURRENT, f.first, f.n - f.first)
                f.at = VALUED
                return True
        elif f.at == VALUED:
            m.value[CURRENT] = result[1] - _penalty(m.d[CURRENT], f.late)
            f.at = CHALLENGE
        elif f.at == CHALLENGE:
            if m.d[i] == 0:
                _begin(m, f, i)
                if i == CORRELATED:
                    ask_for(job, CORRELATE, m, f, i, 0, f.n)
                    f.at = CORRELATING
                    return True
            _ask_for_steps(job, m, f, i, f.first, f.n - f.first, 0.5 * SHARE * f.work, STEPS)
            job[REPEATS] = 2
            f.at = CHALLENGED
            return True
        elif f.at == CORRELATING:
            _realise(m, f, i)
            f.at = CHALLENGE
        elif f.at == CHALLENGED:
            m.value[i] = result[1] - _penalty(m.d[i], f.late)
            f.pace = (result[1] - result[0]) / job[STEPS_]
            f.behind = m.value[CURRENT] + MARGIN - m.value[i]
            f.at = PROVE
            if f.behind < 0 and _any_past(m, f):
                ask_for(job, CARRY, m, f, i, 0, f.n)
                f.at = CARRIED
                return True
        elif f.at == CARRIED:
            f.at = PROVE
            if f.first == 0:
                _ask_for_steps(job, m, f, i, 0, f.n, PROOF_WORK, PROOF_STEPS)
                f.at = CARRIED_ON
                return True
        elif f.at == CARRIED_ON:
            m.value[i] = result[1] - _penalty(m.d[i], f.count)
            f.at = PROVE
        elif f.at == PROVE:
            f.at = DECIDED
            if f.behind < 0 and f.first > 0:
                f.recent = m.value[i]
                recall_levels(m, f, i)
                _ask_for_steps(job, m, f, i, 0, f.n, PROOF_WORK, PROOF_STEPS)
                f.at = PROVING
                return True
            if f.behind < 0:
                copy_model_in_place(m, CURRENT, i, True)
        elif f.at == PROVING:
            m.value[i] = result[1] - _penalty(m.d[i], f.count)
            ask_for(job, FILTER, m, f, CURRENT, 0, f.n)
            f.at = PROVED
            return True
        elif f.at == PROVED:
            better = m.value[i] > result[1] - _penalty(m.d[CURRENT], f.count) + MARGIN
            m.value[i] = f.recent
            if better:
                copy_model_in_place(m, CURRENT, i, True)
            f.at = DECIDED
        elif f.at == DECIDED:
            if f.behind < 0 or f.pace * PATIENCE < f.behind:
                m.d[i] = 0
            f.challenger, f.at = i + 1, CHALLENGE
            if i == LAST:
                m.drawn[1] += 1
                f.left -= 1
                f.at = SEARCH if f.left > 0 else ENDED
        else:
            return False


@jit
def has_past(m: Any, arm: Any) -> Any:
    """Whether rounds of an arm have left the window."""
    size = m.past.shape[2]
    return m.past[CURRENT, arm, size - 2, size - 2] != 0


@jit
def _any_past(m: Any, f: Any) -> Any:
    found = False
    for arm in range(f.arms):
        found = found or has_past(m, arm)
    return found
