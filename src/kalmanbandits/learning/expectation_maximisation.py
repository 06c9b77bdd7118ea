"""Identifying a linear Gaussian system from one reward a round, by expectation–maximisation.

Bandit feedback is a system of k outputs of which one is observed each round: missing data, which the E-step
(`smoothing`) handles exactly. The M-step is a regression for Γ, Q and one for each arm's (c_a, μ_a), with
weak priors that keep a fit to a dozen rounds finite. Loadings and offsets have priors N(0, τ²) with variances
learned too, so that an arm seldom seen is taken to be like the others; but not below a bound, since τ → 0
explains everything by noise and is a hill of its own. Rewards come in units of their own
standard deviation. States have no unit: after every step they are turned so that their mean square is the
identity, which gives the priors a meaning.

Shumway and Stoffer, "An approach to time series smoothing and forecasting using the EM algorithm", 1982.
"""

from __future__ import annotations

import math
from typing import Any

from kalmanbandits.compilation import jit, routine
from kalmanbandits.learning.smoothing import run_filter, smooth

# Priors, as pseudo-observations of standardised rewards and states.
SHRINK_GAMMA = 0.1  # rounds with z_{t+1} = 0
ROUNDS_Q, SQUARES_Q = 1.0, 0.01
ROUNDS_NOISE, SQUARES_NOISE = 1.0, 1e-3
SQUARES_TAU = 0.01
LEAST_TAU = 0.3  # of the loadings of one arm together
LEAST_NOISE = LEAST_PIVOT = 1e-9
STRIDE, LARGEST_STRIDE, SLACK = 1.4, 40.0, 0.5  # of over-relaxed steps


def model_fields(models: int, arms: int, D: int) -> list[tuple[Any, ...]]:
    """Room for the parameters of some models, and how their improvement goes."""
    return [
        ("d", "i8", (models,)),
        ("Gamma", "f8", (models, D, D)),
        ("C", "f8", (models, arms, D)),
        ("mu", "f8", (models, arms)),
        ("Q", "f8", (models, D, D)),
        ("s2", "f8", (models,)),
        ("tau", "f8", (models, 2)),
        ("stride", "f8", (models,)),
        ("reached", "f8", (models,)),
    ]


@routine
def factor(A: Any, L: Any, n: Any) -> Any:
    """L, lower triangular, with LL' = A; a pivot that rounding made negative counts as tiny.

    Returns the least pivot as it was: A is positive definite if that is positive.
    """
    least = math.inf
    for a in range(n):
        for b in range(a + 1):
            total = A[a, b]
            for j in range(b):
                total -= L[a, j] * L[b, j]
            if a == b:
                least = min(least, total)
                L[a, a] = math.sqrt(max(total, 1e-12 * A[a, a] + 1e-300))
            else:
                L[a, b] = total / L[b, b]
    return least


@jit
def solve(L: Any, x: Any, n: Any) -> None:
    """x ← (LL')⁻¹x."""
    for a in range(n):
        for b in range(a):
            x[a] -= L[a, b] * x[b]
        x[a] /= L[a, a]
    for a in range(n - 1, -1, -1):
        for b in range(a + 1, n):
            x[a] -= L[b, a] * x[b]
        x[a] /= L[a, a]


@routine
def maximise(m: Any, i: Any, n: Any, squares: Any) -> None:
    """After `smooth`: the parameters of model `i` that make the expected likelihood with priors greatest."""
    d, G, C, Q, L, x = m.d[i], m.Gamma[i], m.C[i], m.Q[i], m.work_L, m.work_x
    S00, S10, S11, T = m.work_S00, m.work_S10, m.work_S11, m.work_M[0]
    for a in range(d):
        S00[a, a] += SHRINK_GAMMA
    factor(S00, L, d)
    for a in range(d):
        for b in range(d):
            x[b] = S10[a, b]
        solve(L, x, d)
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
            Q[a, b] = 0.5 * (T[a, b] + T[b, a]) / (n - 1 + ROUNDS_Q)
        Q[a, a] += SQUARES_Q / (n - 1 + ROUNDS_Q)
    loadings, offsets, observed = 0.0, 0.0, 0.0
    for arm in range(C.shape[0]):
        A, b_arm = m.work_A[arm], m.work_b[arm]
        observed += A[d, d]
        for a in range(d):
            A[a, a] += m.s2[i] / m.tau[i, 0]
        A[d, d] += m.s2[i] / m.tau[i, 1]
        factor(A, L, d + 1)
        for a in range(d + 1):
            x[a] = b_arm[a]
        solve(L, x, d + 1)
        for a in range(d + 1):
            squares -= x[a] * b_arm[a]
        for a in range(d):
            C[arm, a] = x[a]
            loadings += x[a] * x[a]
        m.mu[i, arm] = x[d]
        offsets += x[d] * x[d]
        for c in range(d + 1):  # the diagonal of A⁻¹ = L'⁻¹L⁻¹, column by column of L⁻¹
            for a in range(c, d + 1):
                total = 1.0 if a == c else 0.0
                for b in range(c, a):
                    total -= L[a, b] * x[b]
                x[a] = total / L[a, a]
                if c < d:
                    loadings += m.s2[i] * x[a] * x[a]
                else:
                    offsets += m.s2[i] * x[a] * x[a]
    k = C.shape[0]
    m.tau[i, 0] = max((loadings + SQUARES_TAU) / (k * d + 1), LEAST_TAU / d)
    m.tau[i, 1] = (offsets + SQUARES_TAU) / (k + 1)
    m.s2[i] = max((squares + SQUARES_NOISE) / (observed + ROUNDS_NOISE), LEAST_NOISE)
    _normalise(m, i, n)


@routine
def _normalise(m: Any, i: Any, n: Any) -> None:
    """Turn the state so that its mean square is I:  z = Lw,  Γ ← L⁻¹ΓL,  Q ← L⁻¹QL'⁻¹,  C ← CL."""
    d, k, G, C, Q, L, T = m.d[i], m.C.shape[1], m.Gamma[i], m.C[i], m.Q[i], m.work_L, m.work_M[0]
    S00, A = m.work_S00, m.work_A
    for a in range(d):
        for b in range(d):
            T[a, b] = S00[a, b] / (n - 1)
    factor(T, L, d)
    for a in range(d):
        for b in range(d):
            total = 0.0
            for j in range(b, d):
                total += G[a, j] * L[j, b]
            T[a, b] = total
    _forward_solve(L, T, d)
    for a in range(d):
        for b in range(d):
            G[a, b] = T[a, b]
    for _ in range(2):  # Q ← L⁻¹Q, transposed, twice
        _forward_solve(L, Q, d)
        _transpose(Q, d)
    for arm in range(k):
        for a in range(d):
            total = 0.0
            for j in range(a, d):
                total += C[arm, j] * L[j, a]
            C[arm, a] = total
        # The regression's own sums, in the new state: they say how well each arm is known.
        _forward_solve(L, A[arm], d)
        for a in range(d):
            for b in range(a):
                A[arm, d, a] -= L[a, b] * A[arm, d, b]
            A[arm, d, a] /= L[a, a]
            A[arm, a, d] = A[arm, d, a]
        _transpose(A[arm], d)
        _forward_solve(L, A[arm], d)


@jit
def _forward_solve(L: Any, X: Any, d: Any) -> None:
    """X ← L⁻¹X."""
    for c in range(d):
        for a in range(d):
            for b in range(a):
                X[a, c] -= L[a, b] * X[b, c]
            X[a, c] /= L[a, a]


@jit
def _transpose(X: Any, d: Any) -> None:
    for a in range(d):
        for b in range(a):
            X[a, b], X[b, a] = X[b, a], X[a, b]


@routine
def improve(m: Any, i: Any, arms: Any, y: Any, n: Any, spare: Any) -> Any:
    """One step of expectation–maximisation of model `i`, over-relaxed; returns its log-likelihood before it.

        θ ← θ + ε(EM(θ) − θ)

    ε grows while the likelihood does; when it falls, the plain step is taken back from `spare` and ε is 1
    (Salakhutdinov and Roweis, "Adaptive overrelaxed bound optimization methods", 2003).
    """
    likelihood = run_filter(m, i, arms, y, n)
    # With a margin: the priors, which take part in the maximum, may cost the data a little every step.
    if m.stride[i] > 1 and not likelihood >= m.reached[i] - SLACK:
        copy_model(m, spare, i)
        m.stride[i] = 1
        likelihood = run_filter(m, i, arms, y, n)
    m.reached[i] = likelihood
    copy_model(m, i, spare)
    maximise(m, i, n, smooth(m, i, arms, y, n))
    if m.stride[i] > 1:
        _stretch(m, i, spare)
    else:
        copy_model(m, i, spare)
    m.stride[i] = min(STRIDE * m.stride[i], LARGEST_STRIDE)
    return likelihood


@routine
def _stretch(m: Any, i: Any, spare: Any) -> None:
    """From θ in `spare` and EM(θ) in `i`: the longer step in `i`, the plain one in `spare`."""
    d, k, e = m.d[i], m.C.shape[1], m.stride[i]
    for a in range(d):
        for b in range(d):
            m.Gamma[i, a, b], m.Gamma[spare, a, b] = _beyond(m.Gamma[spare, a, b], m.Gamma[i, a, b], e)
            m.work_M[0, a, b] = m.Q[spare, a, b] + e * (m.Q[i, a, b] - m.Q[spare, a, b])
        for arm in range(k):
            m.C[i, arm, a], m.C[spare, arm, a] = _beyond(m.C[spare, arm, a], m.C[i, arm, a], e)
    for arm in range(k):
        m.mu[i, arm], m.mu[spare, arm] = _beyond(m.mu[spare, arm], m.mu[i, arm], e)
    ratio = m.s2[i] / m.s2[spare]
    m.s2[spare] = m.s2[i]
    m.s2[i] = max(m.s2[i] * ratio ** (e - 1), LEAST_NOISE)
    positive = factor(m.work_M[0], m.work_L, d) > LEAST_PIVOT
    for a in range(d):
        for b in range(d):
            m.Q[spare, a, b] = m.Q[i, a, b]
            if positive:
                m.Q[i, a, b] = m.work_M[0, a, b]


@jit
def _beyond(old: Any, new: Any, e: Any) -> Any:
    return old + e * (new - old), new


@routine
def copy_model(m: Any, source: Any, target: Any) -> None:
    """Model `target` ← model `source`."""
    D, k = m.Gamma.shape[1], m.C.shape[1]
    m.d[target] = m.d[source]
    m.s2[target] = m.s2[source]
    m.tau[target, 0] = m.tau[source, 0]
    m.tau[target, 1] = m.tau[source, 1]
    for a in range(D):
        for b in range(D):
            m.Gamma[target, a, b] = m.Gamma[source, a, b]
            m.Q[target, a, b] = m.Q[source, a, b]
        for arm in range(k):
            m.C[target, arm, a] = m.C[source, arm, a]
    for arm in range(k):
        m.mu[target, arm] = m.mu[source, arm]
