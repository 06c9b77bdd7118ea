"""The M-step, with priors that arms learn from each other.

Given the sums of the E-step, Γ and Q are a regression of each state on the one before. An arm's (c_a, μ_a)
is a Bayesian regression of its rewards on (z, 1) with noise σ²_a and the prior

    c_a ~ N(0, s²_a I)        μ_a ~ N(m_a, ω²_a)

whose posterior mean and covariance U_a are kept. The prior of an arm comes from how loadings and levels are
spread over the *other* arms: were the arm itself among them, a single large reward would widen the prior
that is to judge it. In the spread of levels it has a small weight all the same, as under a prior with heavy
tails: a reward a hundred deviations off shows a level. Arms count by what is known of them (MacKay, "Bayesian
interpolation", 1992: γ = 1 − posterior over prior variance). The noise σ²_a is shrunk towards that of all
arms.

States have no unit: after every step they are turned so that their mean square is the identity, which gives
the priors a meaning. Rewards come in units of their own spread.
"""

from __future__ import annotations

import math
from typing import Any

from kalmanbandits.compilation import jit, routine
from kalmanbandits.identification.linear_algebra import (
    cholesky,
    cholesky_solve,
    forward_solve,
    invert,
    transpose,
)
from kalmanbandits.identification.past import add_past, turn_past

# Priors, as pseudo-observations in units of standardised rewards and states.
SHRINK_GAMMA = 0.1  # moves to z = 0
MOVES_Q, SQUARES_Q = 1.0, 0.5
LEVEL_GUESS = 0.1
ARMS_LIKE = 1.0  # arms that the first guess of a prior counts for
GUESS = 0.5  # of the variance of loadings (of an arm together) and of levels
LIKE_OTHERS = 4.0  # rounds for which an arm's noise is taken to be that of all
OWN_SCALE = 4.0  # loadings for which an arm is taken to have the scale of all
OWN_LEVEL = 0.1  # weight of an arm's own level in its variance, where another arm's has 1
LEAST_NOISE = 1e-6
LEAST_PRIOR = 1e-3


@routine
def maximise(d: Any, p: Any, w: Any, moved: Any) -> None:
    """After `smooth`: the parameters that make the expected likelihood with priors greatest."""
    if d > 0:
        regress_states(d, p, w, moved)
    add_past(d, p, w)
    for arm in range(p.C.shape[0]):
        regress_arm(d, p, w, arm)
    if w.alike:
        pool_noise(d, p, w)
        return
    share_noise(p, w, d)
    if d > 0:
        normalise(d, p, w, moved)
    share_priors(d, p, w)


@routine
def regress_states(d: Any, p: Any, w: Any, moved: Any) -> None:
    """Γ and Q, given the sums `w.S00`, `w.S10`, `w.S11`; the prior's moves are added to the first."""
    G, Q, L, x, T = p.G, p.Q, w.M[1], w.r[0], w.M[0]
    S00, S10, S11 = w.S00, w.S10, w.S11
    for a in range(d):
        S00[a, a] += SHRINK_GAMMA
    cholesky(S00, L, d)
    for a in range(d):
        for b in range(d):
            x[b] = S10[a, b]
        cholesky_solve(L, x, d)
        for b in range(d):
            G[a, b] = x[b]
    for a in range(d):  # Γ minimises, so S11 − ΓS10' − S10Γ' + ΓS00Γ' = S11 − ΓS10'
        for b in range(d):
            total = S11[a, b]
            for j in range(d):
                total -= G[a, j] * S10[b, j]
            T[a, b] = total
    for a in range(d):
        for b in range(d):
            Q[a, b] = 0.5 * (T[a, b] + T[b, a]) / (moved + MOVES_Q)
        Q[a, a] += SQUARES_Q / (moved + MOVES_Q)


@routine
def regress_arm(d: Any, p: Any, w: Any, arm: Any) -> None:
    """The posterior of (c_a, μ_a) given the sums `w.A[arm]`, `w.b[arm]`, the noise and the prior."""
    E, A, b, x, T, L = d + 1, w.A[arm], w.b[arm], w.r[0], w.M[0], w.M[1]
    precision = 1 / p.s2[arm]
    for a in range(E):
        for c in range(E):
            T[a, c] = precision * A[a, c]
    for a in range(d):
        T[a, a] += 1 / p.prior[arm, 0]
    T[d, d] += 1 / p.prior[arm, 2]
    invert(T, L, x, p.U[arm], E)
    for a in range(E):
        total = p.U[arm, a, d] * p.prior[arm, 1] / p.prior[arm, 2]
        for c in range(E):
            total += p.U[arm, a, c] * b[c] * precision
        x[a] = total
    for a in range(d):
        p.C[arm, a] = x[a]
    p.mu[arm] = x[d]


@routine
def share_noise(p: Any, w: Any, d: Any) -> None:
    """σ²_a: expected squared residuals (left in `w.yy`), shrunk towards the geometric mean over arms.

    An arm counts in that mean by the degrees of freedom which its regression leaves. The variance of its
    loadings is no part of the noise here, though it is in the E-step: with as many loadings as rewards, it
    would be all of it, and loadings that are taken for noise shrink and are more so in the next step.
    """
    k, E = p.C.shape[0], d + 1
    pooled, weight = 0.0, 0.0
    for arm in range(k):
        A, b, U = w.A[arm], w.b[arm], p.U[arm]
        count = A[d, d]
        if count <= 0:
            continue
        residual, fitted = w.yy[arm], 0.0
        for a in range(E):
            theta = p.C[arm, a] if a < d else p.mu[arm]
            residual -= 2 * theta * b[a]
            for c in range(E):
                other = p.C[arm, c] if c < d else p.mu[arm]
                residual += A[a, c] * theta * other
                fitted += A[a, c] * U[a, c]
        if count > 1 and not w.alike:  # a level that its prior holds back is no noise: that is within
            residual = min(residual, (w.yy[arm] - b[d] * b[d] / count) * count / (count - 1))
        w.yy[arm] = max(residual, 0.0)
        free = max(count - fitted / p.s2[arm], 0.0)
        known = free / (free + LIKE_OTHERS)
        pooled += known * math.log(max(w.yy[arm] / count, LEAST_NOISE))
        weight += known
    common = math.exp(pooled / max(weight, 1e-9))
    for arm in range(k):
        count, squares = w.A[arm, d, d], w.yy[arm] if w.A[arm, d, d] > 0 else 0.0
        if count <= 1:
            squares = min(squares, common)
        p.s2[arm] = max((squares + LIKE_OTHERS * common) / (count + LIKE_OTHERS), LEAST_NOISE)


@routine
def pool_noise(d: Any, p: Any, w: Any) -> None:
    """One σ² for all arms, whose (c_a, μ_a) are points: the mean of the expected squared residuals."""
    squares, count = 0.0, 0.0
    for arm in range(p.C.shape[0]):
        for a in range(d + 1):
            for b in range(d + 1):
                p.U[arm, a, b] = 0.0
    share_noise(p, w, d)
    for arm in range(p.C.shape[0]):
        if w.A[arm, d, d] > 0:
            squares += w.yy[arm]
            count += w.A[arm, d, d]
    for arm in range(p.C.shape[0]):
        p.s2[arm] = max(squares / count, LEAST_NOISE)


@routine
def log_prior(d: Any, p: Any, w: Any) -> Any:
    """Of Γ, Q, c_a and μ_a, but for a constant: the one that `regress_states` and `regress_arm` go by."""
    inverse = w.M[0]
    total = -0.5 * MOVES_Q * invert(p.Q, w.M[1], w.r[0], inverse, d)
    for a in range(d):
        total -= 0.5 * SQUARES_Q * inverse[a, a]
        for b in range(d):
            for j in range(d):
                total -= 0.5 * SHRINK_GAMMA * inverse[a, b] * p.G[a, j] * p.G[b, j]
    for arm in range(p.C.shape[0]):
        for a in range(d):
            total -= 0.5 * p.C[arm, a] ** 2 / p.prior[arm, 0]
        total -= 0.5 * (p.mu[arm] - p.prior[arm, 1]) ** 2 / p.prior[arm, 2]
    return total


@routine
def share_priors(d: Any, p: Any, w: Any) -> None:
    """Each arm's prior from the other arms, by what is known of them."""
    k = p.C.shape[0]
    squares, known = 0.0, 0.0
    levels, trust, spread = 0.0, 0.0, 0.0  # levels about their middle: far from it, squares would cancel
    middle = _middle_level(d, p, w)
    for arm in range(k):
        if w.A[arm, d, d] > 0:
            size, gamma = _loading_size(d, p, arm)
            squares += size
            known += gamma
            share = _level_share(d, p, arm)
            levels += share * (p.mu[arm] - middle)
            trust += share
            spread += share * (p.mu[arm] - middle) ** 2
    for arm in range(k):
        own, gamma, share = 0.0, 0.0, 0.0
        if w.A[arm, d, d] > 0:
            own, gamma = _loading_size(d, p, arm)
            share = _level_share(d, p, arm)
        rest = max(trust - share, 0.0)
        off = p.mu[arm] - middle
        mean = (levels - share * off) / rest if rest > 1e-6 else -middle
        size = GUESS
        if d > 0:
            guess = GUESS / d
            size = (squares - own + ARMS_LIKE * d * guess) / (known - gamma + ARMS_LIKE * d)
            trace = 0.0
            for a in range(d):
                trace += p.C[arm, a] ** 2 + p.U[arm, a, a]
            size = (trace + OWN_SCALE * size) / (d + OWN_SCALE)
        p.prior[arm, 0] = max(size, LEAST_PRIOR)
        p.prior[arm, 1] = middle + mean
        others = max(spread - share * off**2 - rest * mean**2, 0.0)
        free = max(rest - 1, 0.0)
        guess = ARMS_LIKE * LEVEL_GUESS + OWN_LEVEL * ((off - mean) ** 2 + p.U[arm, d, d])
        p.prior[arm, 2] = max((others + guess) / (free + ARMS_LIKE + OWN_LEVEL), LEAST_PRIOR)


@jit
def _middle_level(d: Any, p: Any, w: Any) -> Any:
    """The mean of the levels of the arms with rewards."""
    total, seen = 0.0, 0
    for arm in range(p.C.shape[0]):
        if w.A[arm, d, d] > 0:
            total += p.mu[arm]
            seen += 1
    return total / max(seen, 1)


@jit
def _loading_size(d: Any, p: Any, arm: Any) -> Any:
    """|c_a|², and how many of its d loadings are known."""
    size, gamma = 0.0, 0.0
    for a in range(d):
        size += p.C[arm, a] ** 2
        gamma += 1 - min(p.U[arm, a, a] / p.prior[arm, 0], 1.0)
    return size, gamma


@jit
def _level_share(d: Any, p: Any, arm: Any) -> Any:
    """How far an arm's level is known, from 0 to 1."""
    return 1 - min(p.U[arm, d, d] / p.prior[arm, 2], 1.0)


@routine
def normalise(d: Any, p: Any, w: Any, moved: Any) -> None:
    """Turn the state so that its mean square is I:  z = Lx,  Γ ← L⁻¹ΓL,  Q ← L⁻¹QL'⁻¹,  c ← L'c."""
    G, Q, L, T, D = p.G, p.Q, w.M[1], w.M[0], p.G.shape[0]
    for a in range(d):
        for b in range(d):
            T[a, b] = w.S00[a, b] / max(moved, 1)
    cholesky(T, L, d)
    for a in range(d):
        for b in range(d):
            total = 0.0
            for j in range(b, d):
                total += G[a, j] * L[j, b]
            T[a, b] = total
    forward_solve(L, T, d)
    for a in range(d):
        for b in range(d):
            G[a, b] = T[a, b]
    for _ in range(2):  # Q ← L⁻¹Q, transposed, twice
        forward_solve(L, Q, d)
        transpose(Q, d)
    for arm in range(p.C.shape[0]):
        turn_arm(d, p.C[arm], p.U[arm], L, T)
        if p.past[arm, D, D] > 0:
            turn_past(d, p.past[arm], L)


@jit
def turn_arm(d: Any, c: Any, U: Any, L: Any, T: Any) -> None:
    """c ← L'c and its covariance with it; L is lower triangular, T scratch."""
    for a in range(d):
        total, level = 0.0, 0.0
        for j in range(a, d):
            total += c[j] * L[j, a]
            level += U[j, d] * L[j, a]
        c[a] = total  # entry a reads entries from a on only
        U[a, d] = level
        U[d, a] = level
    for a in range(d):
        for b in range(d):
            total = 0.0
            for j in range(a, d):
                total += L[j, a] * U[j, b]
            T[a, b] = total
    for a in range(d):
        for b in range(d):
            total = 0.0
            for j in range(b, d):
                total += T[a, j] * L[j, b]
            U[a, b] = total
