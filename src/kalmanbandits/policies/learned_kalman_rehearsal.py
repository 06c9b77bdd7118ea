"""How curious to be about the state: `LearnedKalman` plays systems drawn from its own model.

Which of greedy, look-ahead and a bonus for the state's variance loses least depends on the system: where the
arms are many modes of their own, look-ahead of one round gives up an arm that was bad when last seen; where
arms share a state, it needs no bonus. So the weight κ of the bonus is chosen by playing. The policy's own
kernel plays episodes of the current model, its parameters taken as known, without a bonus and with one of
κ = `CURIOUS`, on the same states and noises:

    x₁ ~ N(0, I),    x' = Γx + ξ,    y = c_a'x + μ_a + η
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kalmanbandits.compilation import entry
from kalmanbandits.errors import Array
from kalmanbandits.identification.linear_algebra import cholesky
from kalmanbandits.identification.search import CURRENT, KEY
from kalmanbandits.identification.smoothing import propagate
from kalmanbandits.policies.learned_kalman_index import prepare
from kalmanbandits.policies.learned_kalman_kernel import observe_linear
from kalmanbandits.policies.spec import Memory
from kalmanbandits.streams import normals

CURIOUS = 0.5  # the weight of the state's variance one round on
EPISODES, LENGTH = 8, 500  # of a rehearsal, at most
MOST = 24  # episodes times arms: what a rehearsal may cost. With more than half as many arms there is none
FADE = 0.5  # of what earlier rehearsals, of models that were less well known, count for
SURE = 1.0  # standard errors by which the bonus must gain
REHEARSAL = np.uint64(6)  # the purpose of its random numbers


def episodes_of(arms: int) -> int:
    """How many episodes a rehearsal has; fewer than two are none."""
    return min(EPISODES, MOST // arms)


def draw_deviates(t: int, d: int, episodes: int) -> Array:
    """The normal deviates of a rehearsal in round t: episodes × rounds × (what moves the state, noise)."""
    numbers = np.empty((episodes, LENGTH + 1, d + 1))
    normals(numbers.reshape(-1), KEY, REHEARSAL, int(t) * numbers.size % 2**63)
    return numbers


def rehearse(memory: Memory) -> None:
    """Choose the curiosity of a memory whose model was fitted anew."""
    episodes = episodes_of(memory["pulls"].shape[1])
    if memory["d"][0, CURRENT] == 0 or episodes < 2:
        return
    losses = play_episodes(memory, episodes)
    gain = losses[0] - losses[1]
    tally = memory["rehearsal"][0]
    tally *= FADE
    tally += episodes, gain.sum(), (gain**2).sum()
    count, mean = tally[0], tally[1] / tally[0]
    error = math.sqrt(max(tally[2] / count - mean**2, 0.0) / count)
    memory["curiosity"] = CURIOUS if mean > SURE * error else 0.0
    memory["loss"] = losses.mean(axis=1).min() / LENGTH


def play_episodes(memory: Memory, episodes: int) -> Array:
    """The regret of each episode, without a bonus and with one; the memory stays as it is."""
    numbers = draw_deviates(int(memory["t"][0]), int(memory["d"][0, CURRENT]), episodes)
    stage = memory.copy()
    stage["U"][:, CURRENT] = 0.0
    stage["odds"], stage["learned"], stage["again"] = 1e3, np.inf, 0
    stage["paid"], stage["spent"], stage["alone"] = -np.inf, np.inf, 0.0  # nothing is explored or tried again
    stage["looked"] = 0
    losses = np.zeros((2, episodes))
    for loss, stage["curiosity"] in zip(losses, (0.0, CURIOUS), strict=True):
        _play(stage, numbers, loss)
    return losses


@entry
def _play(memories: Any, numbers: Any, losses: Any) -> None:
    """Play every episode; `losses` (episodes) gets its regret."""
    m = memories[0]
    d, k = m.d[CURRENT], m.pulls.shape[0]
    C, mu, G, x, ahead = m.C[CURRENT], m.mu[CURRENT], m.G[CURRENT], m.work_state[0], m.work_state[1]
    L = m.work_L
    cholesky(m.Q[CURRENT], L, d)
    for episode in range(numbers.shape[0]):
        for a in range(d):
            x[a] = numbers[episode, 0, a]
            m.z[a] = 0.0
            for b in range(d):
                m.P[a, b] = 1.0 if a == b else 0.0
        for t in range(1, numbers.shape[1]):
            prepare(m)
            arm, best, paid = 0, -math.inf, 0.0
            for i in range(k):
                mean = mu[i]
                for a in range(d):
                    mean += C[i, a] * x[a]
                best = max(best, mean)
                if i == 0 or m.scores[i, 2] > m.scores[arm, 2]:
                    arm, paid = i, mean
            losses[episode] += best - paid
            reward = paid + math.sqrt(m.s2[CURRENT, arm]) * numbers[episode, t, d]
            observe_linear(m, arm, reward, m.reach)
            propagate(d, G, m.Q[CURRENT], m.z, m.P, m.work_M)
            for a in range(d):
                ahead[a] = 0.0
                for b in range(d):
                    ahead[a] += G[a, b] * x[b]
                for b in range(a + 1):
                    ahead[a] += L[a, b] * numbers[episode, t, b]
            for a in range(d):
                x[a] = ahead[a]
