"""The exact E-step: a Kalman filter forwards and a smoother backwards, one arm observed each round.

    z_{t+1} = Γz_t + ξ_t,  ξ ~ N(0, Q)        y_t = c_{A_t}'z_t + μ_{A_t} + η_t,  η ~ N(0, σ²)

The smoother has the form that needs no inverse (Durbin and Koopman, "Time Series Analysis by State Space
Methods", chapter 4), with v the innovation, S its variance, K the gain and L = Γ(I − Kc'):

    r_{t−1} = c v/S + L'r_t          N_{t−1} = cc'/S + L'N_tL
    E z_t = ẑ_t + P_t r_{t−1}        Var z_t = P_t − P_t N_{t−1} P_t
    Cov(z_{t+1}, z_t) = (I − P_{t+1}N_t) L_t P_t

A round without a reward (arm −1, a gap) counts as one whose noise is beyond all bounds: it leaves the state
to itself. Arrays have room for D dimensions; a model uses the first d of them and leaves the others zero. The
arrays called `work_…` are written before they are read, and need not be saved.
"""

from __future__ import annotations

import math
from typing import Any

from kalmanbandits.compilation import jit, routine

GAP = 1e300  # variance of what is not observed


def work_fields(window: int, arms: int, D: int) -> list[tuple[Any, ...]]:
    """Room for one E-step over `window` rounds, and for the M-step after it."""
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

    Returns the log-likelihood but for its constant; leaves the prediction for round n in `work_zt` and
    `work_Pt`.
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
        if arm < 0:
            m.work_S[t], m.work_v[t] = GAP, 0.0
            for a in range(d):
                K[a] = 0.0
                m.work_z[t, a] = z[a]
                for b in range(d):
                    m.work_P[t, a, b] = P[a, b]
            move_on(d, G, Q, z, P, T)
            continue
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
        move_on(d, G, Q, z, P, T)
    return likelihood


@jit
def move_on(d: Any, G: Any, Q: Any, z: Any, P: Any, T: Any) -> None:
    """ẑ ← Γẑ and P ← ΓPΓ' + Q in the first d dimensions; T is scratch."""
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
def product(d: Any, A: Any, B: Any, out: Any) -> None:
    """out ← AB in the first d dimensions."""
    for a in range(d):
        for b in range(d):
            total = 0.0
            for c in range(d):
                total += A[a, c] * B[c, b]
            out[a, b] = total


@routine
def smooth(m: Any, i: Any, arms: Any, y: Any, n: Any) -> Any:
    """After `run_filter`: sums of E zz', E z⁺z', E z⁺z⁺', each arm's regression on (z, 1); returns Σ y²."""
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
            product(d, G, F, T)
            product(d, m.work_P[t + 1], N, PN)
            product(d, PN, T, lag)
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
        product(d, N, G, PN)  # N ← cc'/S + (I − cK')Γ'NΓ(I − Kc')
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
        product(d, P, N, PN)
        for a in range(d):
            for b in range(a + 1):
                total = P[a, b] + z[a] * z[b]
                for j in range(d):
                    total -= PN[a, j] * P[j, b]
                V[a, b] = total
                V[b, a] = total
        if t < n - 1:
            for a in range(d):
                for b in range(d):
                    m.work_S00[a, b] += V[a, b]
                    m.work_S11[a, b] += V_next[a, b]
                    m.work_S10[a, b] += T[a, b] - lag[a, b] + z_next[a] * z[b]
        if arm >= 0:
            for a in range(d):
                m.work_b[arm, a] += y[t] * z[a]
                m.work_A[arm, a, d] += z[a]
                m.work_A[arm, d, a] += z[a]
                for b in range(d):
                    m.work_A[arm, a, b] += V[a, b]
            m.work_A[arm, d, d] += 1
            m.work_b[arm, d] += y[t]
            squares += y[t] * y[t]
        for a in range(d):
            z_next[a] = z[a]
            for b in range(d):
                V_next[a, b] = V[a, b]
    return squares
