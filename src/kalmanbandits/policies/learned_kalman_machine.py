"""`LearnedKalman` for many runs side by side: a fit that is cut where a model is improved.

What `LearnedKalman` does between rounds, in Python, is done here by compiled functions on one memory, in
place: begin a fit, go on with it as jobs are done for it (`identification.search_machine`), adopt it. The
history of a fit lies in `arms` and `y`, of as many cells as the window is long.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kalmanbandits.compilation import jit, routine
from kalmanbandits.identification.search import CURRENT
from kalmanbandits.identification.search_machine import (
    FINISH,
    KIND,
    LEAVING,
    REACH,
    SEARCH,
    ask_for,
    go_on_searching,
    has_past,
    search_fields,
)
from kalmanbandits.identification.search_machine_models import begin_search
from kalmanbandits.learning.local_levels import is_discrete
from kalmanbandits.policies.learned_kalman import (
    EARLY,
    FOREIGN,
    GROWTH,
    LATE,
    MORE_ARMS,
    OFTEN,
    PER_WINDOW,
    REHEARSE,
    ROUNDS_PER_DIMENSION,
    SHARE,
    SOON,
    VERY_EARLY,
    WORK,
)
from kalmanbandits.policies.learned_kalman_kernel import DOUBT, LATEST, learn_since
from kalmanbandits.policies.learned_kalman_machine_units import (
    choose_unit,
    clip_in_place,
    fitted_reward,
    judge_alone_in_place,
    reorder,
)
from kalmanbandits.policies.learned_kalman_rehearsal import (
    CURIOUS,
    EPISODES,
    FADE,
    LENGTH,
    MOST,
    SURE,
)

PLAYING, WAITING, FINISHING, REHEARSING = range(20, 24)  # where a machine stands when it does not search
REHEARSAL_JOB = 100  # the kind of a job: play episodes in the round that its first cell names


def fit_fields(k: int, D: int) -> list[tuple[Any, ...]]:
    """What a fit keeps beside the memory, of k arms and up to D dimensions."""
    return [
        *search_fields(k, D),
        ("t", "i8"),  # of the memory, while a fit looks at what was when it began; and what follows
        ("held", "i8"),
        ("surprise", "f8"),
        ("reach", "f8"),
        ("repeated", "i8", (2,)),
        ("pool", "f8", (2,)),
        ("unit", "f8"),
        ("low", "f8"),  # the middle one of the rewards, or both
        ("high", "f8"),
        ("limit", "f8"),  # the reach of its cells
        ("order", "i8", (k,)),
        ("aside", "f8", (k, D + 2)),
        ("losses", "f8", (2, EPISODES)),  # of a rehearsal, without a bonus and with one
    ]


def fit_type(memory: np.dtype[np.void]) -> np.dtype[np.void]:
    """The record that a fit of such a memory keeps."""
    return np.dtype(fit_fields(memory["pulls"].shape[0], memory["z"].shape[0]), align=True)


@jit
def note_begin(m: Any) -> None:
    """`LearnedKalman._begin`."""
    t, n = m.t, m.held
    if m.unit == 0:
        m.next = t + 1 + t // 8
        return
    m.begun, m.adopt = t, t + min(max(n // LATE, 1 if n >= SOON else 0), LATEST)
    m.begun_held, m.begun_surprise, m.begun_reach = m.held, m.surprise, m.reach
    m.begun_repeated[0], m.begun_repeated[1] = m.repeated[0], m.repeated[1]
    m.begun_pool[0], m.begun_pool[1] = m.pool[0, 0], m.pool[0, 1]
    for arm in range(m.pulls.shape[0]):
        m.begun_mu[arm] = m.mu[CURRENT, arm]
        for a in range(m.z.shape[0]):
            m.begun_C[arm, a] = m.C[CURRENT, arm, a]


@routine
def begin_fit(m: Any, f: Any, arms: Any, y: Any) -> None:
    """`LearnedKalman._when_begun`, and `_fit` up to the search."""
    k, ring, D = m.pulls.shape[0], m.arm.shape[0], m.z.shape[0]
    f.t, f.held, f.surprise, f.reach, f.unit = m.t, m.held, m.surprise, m.reach, m.unit
    f.repeated[0], f.repeated[1] = m.repeated[0], m.repeated[1]
    f.pool[0], f.pool[1] = m.pool[0, 0], m.pool[0, 1]
    m.t, m.held, m.surprise, m.reach = m.begun, m.begun_held, m.begun_surprise, m.begun_reach
    m.repeated[0], m.repeated[1] = m.begun_repeated[0], m.begun_repeated[1]
    m.pool[0, 0], m.pool[0, 1] = m.begun_pool[0], m.begun_pool[1]
    for a in range(D):
        m.z[a] = 0.0
        for b in range(D):
            m.P[a, b] = 0.0
    for arm in range(k):
        m.mu[CURRENT, arm] = m.begun_mu[arm]
        for a in range(D):
            m.C[CURRENT, arm, a] = m.begun_C[arm, a]
        for a in range(D + 1):
            for b in range(D + 1):
                m.U[CURRENT, arm, a, b] = m.fitted_U[arm, a, b]
    n = min(m.held, m.t - m.gone)
    first = m.t - n
    choose_unit(m, f, y, first, n)
    places = 0
    for arm in range(k):
        f.place[arm] = -1
    for i in range(n):
        arm = m.arm[(first + i) % ring]
        if f.place[arm] < 0:
            f.place[arm] = places
            places += 1
        arms[i] = f.place[arm]
        y[i] = fitted_reward(m.reward[(first + i) % ring] / m.unit)
    for known in range(2):  # those with a past come before those of which nothing is known
        for arm in range(k):
            if f.place[arm] < 0 and (known or has_past(m, arm)):
                f.place[arm] = places
                places += 1
        if not known:
            f.arms = min(places + 1, k)  # one arm stands for all of these
    for arm in range(k):
        f.order[f.place[arm]] = arm
    judge_alone_in_place(m, f, arms, y, n)
    middle = 0.5 * (fitted_reward(f.low / m.unit) + fitted_reward(f.high / m.unit))
    clip_in_place(f, arms, y, n, middle)
    reorder(m, f, True)
    f.n, f.largest = n, max(1, min(D, n // ROUNDS_PER_DIMENSION))
    f.work = WORK * min(MORE_ARMS, 1 + (k - 2) / 12)
    f.left = 2 if n < VERY_EARLY or (m.surprise > 0.75 * DOUBT and n < EARLY) else 1
    f.at, f.limit = SEARCH, math.inf if is_discrete(m.repeated) else m.reach
    begin_search(f, arms, y)


@routine
def go_on(m: Any, f: Any, job: Any, result: Any) -> Any:
    """Go on with a fit; returns whether a job is to be done for it. At its end it is adopted."""
    if f.at == FINISHING:
        reorder(m, f, False)
        f.at = REHEARSING
        if m.t >= max(m.rehearse, REHEARSE):
            m.rehearse = 2 * m.t
            if m.d[CURRENT] > 0 and _episodes(m) >= 2:
                ask_for(job, REHEARSAL_JOB, m, f, CURRENT, m.t, 0)
                return True
    if f.at == REHEARSING:
        if job[KIND] == REHEARSAL_JOB:
            _judge(m, f)
        _adopt(m, f)
        f.at = PLAYING
        return False
    result[REACH] = f.limit
    if go_on_searching(m, f, job, result):
        return True
    for i in range(f.order.shape[0]):
        place = min(i, f.arms - 1)
        for a in range(m.U.shape[2]):
            for b in range(m.U.shape[2]):
                m.fitted_U[f.order[i], a, b] = m.U[CURRENT, place, a, b]
    window = m.arm.shape[0] - LATEST
    seldom = max(OFTEN, min(m.t // SHARE, window // PER_WINDOW))
    m.next = m.t + max(1, min(int(m.t * GROWTH), seldom))
    ask_for(job, FINISH, m, f, CURRENT, 0, f.n)
    job[LEAVING] = max(f.n + m.next - m.t - window, 0)
    if job[LEAVING] > 0:
        m.gone = m.t - f.n + job[LEAVING]
    f.at = FINISHING
    return True


@routine
def _adopt(m: Any, f: Any) -> None:
    """`LearnedKalman._adopt`."""
    anew = m.unit != f.unit
    grown = min(f.unit / m.unit, FOREIGN)
    m.spent = min(m.spent * grown, FOREIGN)
    for arm in range(m.pulls.shape[0]):
        m.paid[arm] = min(m.paid[arm] * grown, FOREIGN)
    m.t, m.surprise = f.t, f.surprise
    if not anew:
        m.reach = f.reach
        m.repeated[0], m.repeated[1] = f.repeated[0], f.repeated[1]
        m.pool[0, 0], m.pool[0, 1] = f.pool[0], f.pool[1]
    m.adopt, m.fitted = 0, m.t
    if m.held > 500:
        m.surprise = min(1.0, m.surprise)
    m.held = f.held
    learn_since(m, m.begun, anew)


@jit
def _episodes(m: Any) -> Any:
    """`learned_kalman_rehearsal.episodes_of`."""
    return min(EPISODES, MOST // m.pulls.shape[0])


@routine
def _judge(m: Any, f: Any) -> None:
    """The end of `learned_kalman_rehearsal.rehearse`."""
    episodes, total, squares, plain, curious = _episodes(m), 0.0, 0.0, 0.0, 0.0
    for episode in range(episodes):
        gain = f.losses[0, episode] - f.losses[1, episode]
        total += gain
        squares += gain * gain
        plain += f.losses[0, episode]
        curious += f.losses[1, episode]
    tally = m.rehearsal
    tally[0] = FADE * tally[0] + episodes
    tally[1] = FADE * tally[1] + total
    tally[2] = FADE * tally[2] + squares
    mean = tally[1] / tally[0]
    error = math.sqrt(max(tally[2] / tally[0] - mean * mean, 0.0) / tally[0])
    m.curiosity = CURIOUS if mean > SURE * error else 0.0
    m.loss = min(plain, curious) / episodes / LENGTH
