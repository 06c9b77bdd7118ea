"""Identifying a linear Gaussian system from one reward a round, by expectation–maximisation.

Bandit feedback is a system of k outputs of which one is observed each round:

    z_{t+1} = Γz_t + ξ_t,  ξ ~ N(0, Q)        y_t = c_{A_t}'z_t + μ_{A_t} + η_t,  η ~ N(0, σ²)

The E-step is exact: a Kalman filter forwards, and backwards the smoother in the form that needs no inverse
(r and N below; Durbin and Koopman, "Time Series Analysis by State Space Methods", chapter 4):

    r_{t−1} = c v/S + L'r_t      N_{t−1} = cc'/S + L'N_tL      L = Γ(I − Kc')
    E z_t = ẑ_t + P_t r_{t−1}    Var z_t = P_t − P_t N_{t−1} P_t    Cov(z_{t+1}, z_t) = (I − P_{t+1}N_t) L_t P_t

The M-step is a regression for Γ, Q and one for each arm's (c_a, μ_a), with weak priors that keep a fit to a
dozen rounds finite. Rewards come in units of their own standard deviation. States have no unit: after every
step they are turned so that their mean square is the identity, which gives the priors a meaning.

Shumway and Stoffer, "An approach to time series smoothing and forecasting using the EM algorithm", 1982.
Every array has room for `D` dimensions; the first `d` are in use, the others stay zero.
"""

from __future__ import annotations

import math
from typing import Any

from kalmanbandits.compilation import jit, routine

# Priors, as pseudo-observations of standardised rewards and states.
SHRINK_GAMMA = 0.1  # rounds with z_{t+1} = 0, weighting Γ towards 0
ROUNDS_Q, SQUARES_Q = 1.0, 0.01
ROUNDS_NOISE, SQUARES_NOISE = 1.0, 1e-3
SHRINK_C, SHRINK_MU = 0.1, 1.0
LEAST_NOISE = 1e-9


def model_fields(models: int, arms: int, D: int) -> list[tuple[Any, ...]]:
    """Room for the parameters of some models."""
    return [
        ("d", "i8", (models,)),
        ("Gamma", "f8", (models, D, D)),
        ("C", "f8", (models, arms, D)),
        ("mu", "f8", (models, arms)),
        ("Q", "f8", (models, D, D)),
        ("s2", "f8", (models,)),
    ]


def work_fields(window: int, arms: int, D: int) -> list[tuple[Any, ...]]:
    """Room for one E-step over `window` rounds: written before it is read, so not worth saving."""
    square = (D, D)
    return [
        ("work_z", "f8", (window, D)),
        ("work_P", "f8", (window, D, D)),
        ("work_K", "f8", (window, D)),
        ("work_v", "f8", (window,)),
        ("work_S", "f8", (window,)),
        ("work_zt", "f8", (D,)),
        ("work_Pt", "f8", square),
        ("work_r", "f8", (4, D)),
        ("work_M", "f8", (7, D, D)),
        ("work_S00", "f8", square),
        ("work_S10", "f8", square),
        ("work_S11", "f8", square),
        ("work_A", "f8", (arms, D + 1, D + 1)),
        ("work_b", "f8", (arms, D + 1)),
        ("work_L", "f8", (D + 1, D + 1)),
        ("work_x", "f8", (D + 1,)),
    ]


@routine
def run_filter(m: Any, i: Any, arms: Any, y: Any, n: Any) -> Any:
    """Filter rounds 0 … n − 1 with model `i`, from z ~ N(0, I); keeps what the smoother needs.

    Returns the log-likelihood but for its constant; leaves the prediction for round n in `work_zt`, `work_Pt`.
    """
    d, G, C, mu, Q = m.d[i], m.Gamma[i], m.C[i], m.mu[i], m.Q[i]
    z, P, T = m.work_zt, m.work_Pt, m.work_M[0]
    likelihood = 0.0
    for a in range(d):
        z[a] = 0
        for b in range(d):
            P[a, b] = 0
        P[a, a] = 1
    for t in range(n):
        arm = arms[t]
        K = m.work_K[t]
        S = m.s2[i]
        v = y[t] - mu[arm]
        for a in range(d):
            m.work_z[t, a] = z[a]
            total = 0.0
            for b in range(d):
                m.work_P[t, a, b] = P[a, b]
                total += P[a, b] * C[arm, b]
            K[a] = total
            S += C[arm, a] * total
            v -= C[arm, a] * z[a]
        m.work_S[t] = S
        m.work_v[t] = v
        likelihood -= 0.5 * (math.log(S) + v * v / S)
        for a in range(d):
            K[a] /= S
            z[a] += K[a] * v
        for a in range(d):
            for b in range(d):
                P[a, b] -= K[a] * K[b] * S
        _predict(d, G, Q, z, P, T)
    return likelihood


@jit
def _predict(d: Any, G: Any, Q: Any, z: Any, P: Any, T: Any) -> None:
    for a in range(d):
        total = 0.0
        for b in range(d):
            total += G[a, b] * z[b]
        T[0, a] = total
    for a in range(d):
        z[a] = T[0, a]
    for a in range(d):
        for b in range(d):
            total = 0.0
            for c in range(d):
                total += G[a, c] * P[c, b]
            T[a, b] = total
    for a in range(d):
        for b in range(a + 1):
            total = Q[a, b]
            for c in range(d):
                total += T[a, c] * G[b, c]
            P[a, b] = total
            P[b, a] = total


@jit
def _product(d: Any, A: Any, B: Any, out: Any) -> None:
    for a in range(d):
        for b in range(d):
            total = 0.0
            for c in range(d):
                total += A[a, c] * B[c, b]
            out[a, b] = total


@routine
def smooth(m: Any, i: Any, arms: Any, y: Any, n: Any) -> Any:
    """After `run_filter`: sums of E zz', E z⁺z', E z⁺z⁺' and of each arm's regression on (z, 1). Returns Σ y²."""
    d, D, G, C = m.d[i], m.work_zt.shape[0], m.Gamma[i], m.C[i]
    r, z, z_next, u = m.work_r[0], m.work_r[1], m.work_r[2], m.work_r[3]
    N, V, V_next, F = m.work_M[0], m.work_M[1], m.work_M[2], m.work_M[3]
    lag, T, PN = m.work_M[4], m.work_M[5], m.work_M[6]
    squares = 0.0
    for a in range(d):
        r[a] = 0
        for b in range(d):
            N[a, b] = 0
            m.work_S00[a, b] = 0
            m.work_S10[a, b] = 0
            m.work_S11[a, b] = 0
    for arm in range(m.work_b.shape[0]):
        for a in range(D + 1):
            m.work_b[arm, a] = 0
            for b in range(D + 1):
                m.work_A[arm, a, b] = 0
    for t in range(n - 1, -1, -1):
        arm, K, P, c = arms[t], m.work_K[t], m.work_P[t], C[arms[t]]
        S, v = m.work_S[t], m.work_v[t]
        if t < n - 1:  # Cov(z_{t+1}, z_t) from r, N of the round after, before they move back
            for a in range(d):
                for b in range(d):
                    F[a, b] = P[a, b] - S * K[a] * K[b]
            _product(d, G, F, T)
            _product(d, m.work_P[t + 1], N, PN)
            _product(d, PN, T, lag)
        for a in range(d):  # r ← c v/S + (I − cK')Γ'r
            total = 0.0
            for b in range(d):
                total += G[b, a] * r[b]
            u[a] = total
        Kr = 0.0
        for a in range(d):
            Kr += K[a] * u[a]
        for a in range(d):
            r[a] = u[a] + c[a] * (v / S - Kr)
        _product(d, N, G, PN)  # N ← cc'/S + (I − cK')Γ'NΓ(I − Kc')
        for a in range(d):
            for b in range(a + 1):
                total = 0.0
                for j in range(d):
                    total += G[j, a] * PN[j, b]
                F[a, b] = total
                F[b, a] = total
        KNK = 0.0
        for a in range(d):
            total = 0.0
            for b in range(d):
                total += F[a, b] * K[b]
            u[a] = total
            KNK += K[a] * total
        for a in range(d):
            for b in range(d):
                N[a, b] = F[a, b] - u[a] * c[b] - c[a] * u[b] + c[a] * c[b] * (KNK + 1 / S)
        for a in range(d):
            total = m.work_z[t, a]
            for b in range(d):
                total += P[a, b] * r[b]
            z[a] = total
        _product(d, P, N, PN)
        for a in range(d):
            for b in range(a + 1):
                total = P[a, b] + z[a] * z[b]
                for j in range(d):
                    total -= PN[a, j] * P[j, b]
                V[a, b] = total
                V[b, a] = total
        for a in range(d):
            m.work_b[arm, a] += y[t] * z[a]
            m.work_A[arm, a, d] += z[a]
            m.work_A[arm, d, a] += z[a]
            for b in range(d):
                m.work_A[arm, a, b] += V[a, b]
                if t < n - 1:
                    m.work_S00[a, b] += V[a, b]
                    m.work_S11[a, b] += V_next[a, b]
                    m.work_S10[a, b] += T[a, b] - lag[a, b] + z_next[a] * z[b]
        m.work_A[arm, d, d] += 1
        m.work_b[arm, d] += y[t]
        squares += y[t] * y[t]
        for a in range(d):
            z_next[a] = z[a]
            for b in range(d):
                V_next[a, b] = V[a, b]
    return squares


@routine
def factor(A: Any, L: Any, n: Any) -> None:
    """L, lower triangular, with LL' = A; a pivot that rounding made negative counts as tiny."""
    for a in range(n):
        for b in range(a + 1):
            total = A[a, b]
            for j in range(b):
                total -= L[a, j] * L[b, j]
            if a == b:
                L[a, a] = math.sqrt(max(total, 1e-12 * A[a, a] + 1e-300))
            else:
                L[a, b] = total / L[b, b]


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
    """After `smooth`: the parameters of model `i` that make the expected likelihood, with priors, greatest."""
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
    for arm in range(C.shape[0]):
        A, b_arm = m.work_A[arm], m.work_b[arm]
        for a in range(d):
            A[a, a] += SHRINK_C * m.s2[i]
        A[d, d] += SHRINK_MU * m.s2[i]
        factor(A, L, d + 1)
        for a in range(d + 1):
            x[a] = b_arm[a]
        solve(L, x, d + 1)
        for a in range(d + 1):
            squares -= x[a] * b_arm[a]
        for a in range(d):
            C[arm, a] = x[a]
        m.mu[i, arm] = x[d]
    m.s2[i] = max((squares + SQUARES_NOISE) / (n + ROUNDS_NOISE), LEAST_NOISE)
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
def improve(m: Any, i: Any, arms: Any, y: Any, n: Any) -> Any:
    """One step of expectation–maximisation of model `i`; returns its log-likelihood before the step."""
    likelihood = run_filter(m, i, arms, y, n)
    maximise(m, i, n, smooth(m, i, arms, y, n))
    return likelihood


@routine
def copy_model(m: Any, source: Any, target: Any) -> None:
    """Model `target` ← model `source`."""
    D, k = m.Gamma.shape[1], m.C.shape[1]
    m.d[target] = m.d[source]
    m.s2[target] = m.s2[source]
    for a in range(D):
        for b in range(D):
            m.Gamma[target, a, b] = m.Gamma[source, a, b]
            m.Q[target, a, b] = m.Q[source, a, b]
        for arm in range(k):
            m.C[target, arm, a] = m.C[source, arm, a]
    for arm in range(k):
        m.mu[target, arm] = m.mu[source, arm]
