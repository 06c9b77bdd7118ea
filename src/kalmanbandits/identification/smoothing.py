"""The E-step: a Kalman filter forwards and a smoother backwards over a history of cells.

    z' = Γz + ξ,  ξ ~ N(0, Q)        y = c_a'z + μ_a + η,  η ~ N(0, σ²_a)

The smoother needs no inverse (Durbin and Koopman, "Time Series Analysis by State Space Methods", chapter
4). With v the innovation, S its variance, K the gain, F the filtered covariance, and g = Γ'r, B = Γ'NΓ
where the state moved after the cell (g = r, B = N where it did not):

    E z = ẑ + Fg                       Var z = F − FBF
    r ← cv/S + (I − cK')g              N ← cc'/S + (I − cK')B(I − Kc')
    E z⁺z' = Γ E zz' + Q(r E z' − NΓF)

(the last: Koopman and Shephard, "Exact score for time series models in state space form", 1992).

Two things are not in the textbook. An arm's loading is itself uncertain: its part of the innovation's
variance, (ẑ, 1)U_a(ẑ, 1)' + tr(U_a P), is added to the noise, so that an arm hardly known says little about
the state. And an innovation beyond `OUTLIER` deviations counts as one of that size whose variance was
larger: its weight falls with the square of its size, as for a likelihood with heavy tails. Without both
this is the exact E-step.
"""

from __future__ import annotations

import math
from typing import Any

from kalmanbandits.compilation import entry, jit, routine
from kalmanbandits.identification.linear_algebra import product

OUTLIER = 4.5  # deviations
NOTHING = 1e300  # variance of what is not observed


@jit
def propagate(d: Any, G: Any, Q: Any, z: Any, P: Any, T: Any) -> None:
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
def loading_variance(d: Any, U: Any, z: Any, P: Any) -> Any:
    """(z, 1)U(z, 1)' + tr(UP): what is not known of an arm, seen from a state N(z, P)."""
    total = U[d, d]
    for a in range(d):
        row = 2 * U[a, d] + U[a, a] * z[a]
        for b in range(a):
            row += 2 * U[a, b] * z[b]
        total += row * z[a] + U[a, a] * P[a, a]
        for b in range(a):
            total += 2 * U[a, b] * P[a, b]
    return max(total, 0.0)


@jit
def temper(v: Any, S: Any, reach: Any) -> Any:
    """The variance with which an innovation counts: S, or more where it is an outlier."""
    if abs(v) <= reach:
        return S
    return max(S, v * v / (OUTLIER * OUTLIER))


@routine
def run_filter(d: Any, p: Any, cells: Any, n: Any, w: Any) -> Any:
    """Filter n cells from z ~ N(0, I); keeps what the smoother needs, and the prediction after them.

    Returns the log-likelihood but for its constant.
    """
    z, P, T = w.zt, w.Pt, w.M[0]
    likelihood = 0.0
    for a in range(d):
        z[a] = 0.0
        for b in range(d):
            P[a, b] = 0.0
        P[a, a] = 1.0
    row = 0
    for t in range(n):
        arm, K = cells.arm[t], w.K[t]
        if arm < 0:
            w.S[t], w.v[t], w.weight[t] = NOTHING, 0.0, 0.0
            for a in range(d):
                K[a] = 0.0
        else:
            c = p.C[arm]
            S, v = 0.0, cells.y[t] - p.mu[arm]
            for a in range(d):
                total = 0.0
                for b in range(d):
                    total += P[a, b] * c[b]
                K[a] = total
                S += c[a] * total
                v -= c[a] * z[a]
            plain = S + p.s2[arm]
            if not w.alike:
                plain += loading_variance(d, p.U[arm], z, P)
            S = temper(v, plain, cells.reach)
            w.S[t], w.v[t], w.weight[t] = S, v, plain / S
            likelihood -= 0.5 * (math.log(S) + v * v / S)
            for a in range(d):
                K[a] /= S
                z[a] += K[a] * v
            for a in range(d):
                for b in range(a + 1):
                    P[a, b] -= K[a] * K[b] * S
                    P[b, a] = P[a, b]
        if cells.moves[t] or t == n - 1:
            F = w.F[row]
            for a in range(d):
                w.z[row, a] = z[a]
                for b in range(d):
                    F[a, b] = P[a, b]
            row += 1
        if cells.moves[t]:
            propagate(d, p.G, p.Q, z, P, T)
    return likelihood


@routine
def smooth(d: Any, p: Any, cells: Any, n: Any, w: Any) -> Any:
    """After `run_filter`: the sums that the M-step needs, into the workspace; returns the number of moves."""
    G, Q = p.G, p.Q
    k = p.C.shape[0]
    r, z, g, after = w.r[0], w.r[1], w.r[2], w.r[3]
    N, B, NG, V, X, last = w.M[0], w.M[1], w.M[2], w.M[3], w.M[4], w.M[5]
    cross = w.S10
    for a in range(d):
        r[a] = 0.0
        g[a] = 0.0
        for b in range(d):
            N[a, b] = 0.0
            B[a, b] = 0.0
            w.S00[a, b] = 0.0
            w.S11[a, b] = 0.0
            cross[a, b] = 0.0
    for arm in range(k):
        w.yy[arm] = 0.0
        for a in range(d + 1):
            w.b[arm, a] = 0.0
            for b in range(d + 1):
                w.A[arm, a, b] = 0.0
    moved, row = 0, 0
    for t in range(n - 1):
        row += cells.moves[t]
    for t in range(n - 1, -1, -1):
        arm, K, F, S, v = cells.arm[t], w.K[t], w.F[row], w.S[t], w.v[t]
        moves = cells.moves[t] and t < n - 1  # no cell depends on the move after the last one
        if moves:
            for a in range(d):
                total = 0.0
                for b in range(d):
                    total += G[b, a] * r[b]
                g[a] = total
            product(d, N, G, NG)
            for a in range(d):
                for b in range(a + 1):
                    total = 0.0
                    for j in range(d):
                        total += G[j, a] * NG[j, b]
                    B[a, b] = total
                    B[b, a] = total
        if moves or t == n - 1:  # the other cells of a row have the state of its last one
            for a in range(d):
                total = w.z[row, a]
                for b in range(d):
                    total += F[a, b] * g[b]
                z[a] = total
            product(d, B, F, X)
            for a in range(d):
                for b in range(a + 1):
                    total = F[a, b] + z[a] * z[b]
                    for j in range(d):
                        total -= F[a, j] * X[j, b]
                    V[a, b] = total
                    V[b, a] = total
        if moves:
            moved += 1
            product(d, NG, F, X)
            for a in range(d):
                for b in range(d):
                    w.S00[a, b] += V[a, b]
                    w.S11[a, b] += last[a, b]
                    cross[a, b] += r[a] * z[b] - X[a, b]
                    N[a, b] = B[a, b]
                r[a] = g[a]
        if arm >= 0:
            weight, A = w.weight[t], w.A[arm]
            y = cells.y[t]
            for a in range(d):
                w.b[arm, a] += weight * y * z[a]
                A[d, a] += weight * z[a]
                for b in range(a + 1):
                    A[a, b] += weight * V[a, b]
            A[d, d] += weight
            w.b[arm, d] += weight * y
            w.yy[arm] += weight * y * y
            c = p.C[arm]
            Kg, KBK = 0.0, 0.0
            for a in range(d):
                Kg += K[a] * r[a]
                total = 0.0
                for b in range(d):
                    total += N[a, b] * K[b]
                after[a] = total
                KBK += K[a] * total
            for a in range(d):
                r[a] += c[a] * (v / S - Kg)
                for b in range(a + 1):
                    N[a, b] = N[a, b] - after[a] * c[b] - c[a] * after[b] + c[a] * c[b] * (KBK + 1 / S)
                    N[b, a] = N[a, b]
        if t > 0 and cells.moves[t - 1]:
            row -= 1
            for a in range(d):
                for b in range(d):
                    last[a, b] = V[a, b]
    for arm in range(k):
        for a in range(d + 1):
            for b in range(a):
                w.A[arm, b, a] = w.A[arm, a, b]
    product(d, Q, cross, X)
    product(d, G, w.S00, B)
    for a in range(d):
        for b in range(d):
            w.S10[a, b] = B[a, b] + X[a, b]
    return moved


@entry
def filter_cells(d: Any, p: Any, cells: Any, n: Any, w: Any) -> Any:
    """`run_filter`, called from Python."""
    return run_filter(d, p, cells, n, w)


@entry
def smooth_cells(d: Any, p: Any, cells: Any, n: Any, w: Any) -> Any:
    """`smooth`, called from Python."""
    return smooth(d, p, cells, n, w)
