"""Of `search_machine`: the models of a memory, drawn and copied in place, and the moments of a history."""

from __future__ import annotations

import math
from typing import Any

from kalmanbandits.compilation import jit, routine
from kalmanbandits.identification.search import CURRENT, FAR, FEW, KEY, MOST_NOISE, RECENT, RESTART
from kalmanbandits.streams import fill_normals


@routine
def begin_search(f: Any, arms: Any, y: Any) -> None:
    """`search.moments` of the cells, and the counts of the recent ones."""
    k, n = f.count.shape[0], f.n
    f.first = max(0, n - RECENT)
    for a in range(k):
        f.count[a], f.late[a], f.mean[a], f.squares[a] = 0.0, 0.0, 0.0, 0.0
    for t in range(n):
        f.count[arms[t]] += 1.0
        f.mean[arms[t]] += y[t]
        if t >= f.first:
            f.late[arms[t]] += 1.0
    seen, squares = 0, 0.0
    for a in range(k):
        seen += f.count[a] > 0
        f.spread[a] = f.mean[a] / max(f.count[a], 1.0)  # the arm's own mean
    for t in range(n):
        off = y[t] - f.spread[arms[t]]
        squares += off * off
    within = math.sqrt(squares / (n - seen)) if n > seen else math.inf
    for a in range(k):
        mean = f.mean[a] / (f.count[a] + FEW)
        f.mean[a] = f.spread[a] if abs(f.spread[a] - mean) > FAR * within else mean
    for t in range(n):
        off = y[t] - f.mean[arms[t]]
        f.squares[arms[t]] += off * off
    total = 0.0
    for a in range(k):
        total += f.squares[a]
    common = total / max(float(n), 1.0)
    for a in range(k):
        f.spread[a] = math.sqrt((f.squares[a] + FEW * common) / (f.count[a] + FEW)) + 1e-9


@jit
def _uniform(x: Any) -> Any:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@routine
def draw_model_in_place(m: Any, f: Any, i: Any, d: Any, kept: Any) -> None:
    """`search.draw_model`."""
    k, D, fresh = f.arms, m.G.shape[1], d - kept
    G, Q, C = m.G[i], m.Q[i], m.C[i]
    size = 2 * fresh + k * fresh + 1
    fill_normals(f.numbers[:size], KEY, RESTART, m.drawn[0])
    m.drawn[0] += size
    noise = 0.5 if kept else MOST_NOISE * _uniform(f.numbers[size - 1])
    for a in range(D):
        for b in range(D):
            if a >= kept or b >= kept:
                G[a, b], Q[a, b] = 0.0, 0.0
    for a in range(kept, d, 2):
        shape = 2 * (a - kept)
        radius, angle = 0.8 + 0.19 * _uniform(f.numbers[shape]), math.pi * _uniform(f.numbers[shape + 1])
        if a + 1 < d:
            G[a, a], G[a, a + 1] = radius * math.cos(angle), radius * math.sin(angle)
            G[a + 1, a], G[a + 1, a + 1] = radius * -math.sin(angle), radius * math.cos(angle)
            Q[a + 1, a + 1] = 1 - radius**2
        else:
            G[a, a] = radius if angle < 0.75 * math.pi else -radius
        Q[a, a] = 1 - radius**2
    scale, middle = math.sqrt((1 - noise) / d), 0.0
    for arm in range(k):
        middle += f.mean[arm] / k
    for arm in range(k):
        for a in range(kept, D):
            C[arm, a] = 0.0
            if a < d:
                C[arm, a] = f.numbers[2 * fresh + arm * fresh + a - kept] * scale * f.spread[arm]
        for a in range(D + 1):
            for b in range(D + 1):
                m.U[i, arm, a, b] = 0.0
        if kept == 0:
            for a in range(D + 2):
                for b in range(D + 2):
                    m.past[i, arm, a, b] = 0.0
            m.s2[i, arm] = max(noise, 1e-3) * f.spread[arm] ** 2
            m.mu[i, arm] = f.mean[arm]
            off = f.mean[arm] - middle
            m.prior[i, arm, 0], m.prior[i, arm, 1], m.prior[i, arm, 2] = 0.5 / d, middle, 0.5 + off * off
    m.d[i] = d
    m.value[i] = -math.inf
    m.state[i, 0], m.state[i, 1] = 1.0, 1.0


@jit
def _move(A: Any, B: Any, exchange: Any) -> None:
    for a in range(A.shape[0]):
        for b in range(A.shape[1]):
            x = A[a, b]
            if exchange:
                A[a, b] = B[a, b]
            B[a, b] = x


@routine
def copy_model_in_place(m: Any, i: Any, j: Any, exchange: Any) -> None:
    """Model `j` becomes a copy of model `i`, which becomes what `j` was if they exchange places."""
    _move(m.G[i], m.G[j], exchange)
    _move(m.Q[i], m.Q[j], exchange)
    _move(m.C[i], m.C[j], exchange)
    _move(m.prior[i], m.prior[j], exchange)
    for arm in range(m.mu.shape[1]):
        _move(m.U[i, arm], m.U[j, arm], exchange)
        _move(m.past[i, arm], m.past[j, arm], exchange)
        mu, s2 = m.mu[i, arm], m.s2[i, arm]
        if exchange:
            m.mu[i, arm], m.s2[i, arm] = m.mu[j, arm], m.s2[j, arm]
        m.mu[j, arm], m.s2[j, arm] = mu, s2
    if exchange:
        d, value, stride, best = m.d[i], m.value[i], m.state[i, 0], m.state[i, 1]
        m.d[i], m.value[i] = m.d[j], m.value[j]
        m.state[i, 0], m.state[i, 1] = m.state[j, 0], m.state[j, 1]
        m.d[j], m.value[j], m.state[j, 0], m.state[j, 1] = d, value, stride, best


@jit
def recall_levels(m: Any, f: Any, i: Any) -> None:
    """`Search.recall_levels`."""
    for arm in range(f.count.shape[0]):
        if f.count[arm] > 0 and f.late[arm] == 0:
            m.mu[i, arm] = m.mu[CURRENT, arm]
            m.prior[i, arm, 1], m.prior[i, arm, 2] = m.prior[CURRENT, arm, 1], m.prior[CURRENT, arm, 2]
