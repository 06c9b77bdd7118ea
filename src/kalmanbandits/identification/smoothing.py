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

from kalmanbandits.compilation import jit
from kalmanbandits.identification.lanes import add_row, mirror, multiply, multiply_vector
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


@jit
def run_filter(d: Any, e: Any, p: Any, cells: Any, n: Any, w: Any, M: Any) -> Any:
    """Filter n cells from z ~ N(0, I); keeps what the smoother needs, and the prediction after them.

    Returns the log-likelihood but for its constant. See `by_dimension` for `e` and the scratch matrices `M`.
    """
    G, GT, Q, P, T, x = M
    z, c, K = x[0], x[1], x[2]
    for a in range(d):
        for b in range(e):
            G[a, b], GT[a, b], Q[a, b], P[a, b] = 0.0, 0.0, 0.0, 0.0
            if b < d:
                G[a, b], GT[a, b], Q[a, b] = p.G[a, b], p.G[b, a], p.Q[a, b]
        P[a, a] = 1.0
    for b in range(e):
        z[b], c[b] = 0.0, 0.0
    likelihood, row = 0.0, 0
    for t in range(n):
        arm = cells.arm[t]
        if arm < 0:
            w.S[t], w.v[t], w.weight[t] = NOTHING, 0.0, 0.0
            for a in range(d):
                w.K[t, a] = 0.0
        else:
            for a in range(d):
                c[a] = p.C[arm, a]
            multiply_vector(d, e, P, c, x, 2)
            S, v = 0.0, cells.y[t] - p.mu[arm]
            for a in range(d):
                S += c[a] * K[a]
                v -= c[a] * z[a]
            plain = S + p.s2[arm]
            if not w.alike:
                plain += loading_variance(d, p.U[arm], z, P)
            S = temper(v, plain, cells.reach)
            w.S[t], w.v[t], w.weight[t] = S, v, plain / S
            likelihood -= 0.5 * (math.log(S) + v * v / S)
            for a in range(e):
                K[a] /= S
                z[a] += K[a] * v
            for a in range(d):
                w.K[t, a] = K[a]
                for b in range(e):
                    P[a, b] -= K[a] * K[b] * S
        if cells.moves[t] or t == n - 1:
            for a in range(d):
                w.z[row, a] = z[a]
                for b in range(e):
                    w.F[(row * d + a) * e + b] = P[a, b]
            row += 1
        if cells.moves[t]:
            multiply_vector(d, e, GT, z, x, 3)
            for a in range(e):
                z[a] = x[3, a]
            multiply(d, e, G, P, T)
            for a in range(d):
                for b in range(e):
                    P[a, b] = Q[a, b]
                for j in range(d):
                    add_row(e, P, a, T[a, j], GT, j)
            mirror(d, P)
    for a in range(d):
        w.zt[a] = z[a]
        for b in range(d):
            w.Pt[a, b] = P[a, b]
    return likelihood


@jit
def smooth(d: Any, e: Any, p: Any, cells: Any, n: Any, w: Any, M: Any) -> Any:
    """After `run_filter`: the sums that the M-step needs, into the workspace; returns the number of moves."""
    G, N, B, NG, F, V, last, X, S00, S11, cross, x = M
    r, z, g, after, c, K = x[0], x[1], x[2], x[3], x[4], x[5]
    for a in range(d):
        for b in range(e):
            G[a, b] = p.G[a, b] if b < d else 0.0
            N[a, b], B[a, b], F[a, b] = 0.0, 0.0, 0.0
            S00[a, b], S11[a, b], cross[a, b] = 0.0, 0.0, 0.0
    for b in range(e):
        r[b], z[b], g[b], c[b], K[b] = 0.0, 0.0, 0.0, 0.0, 0.0
    for arm in range(p.C.shape[0]):
        w.yy[arm] = 0.0
        for a in range(d + 1):
            w.b[arm, a] = 0.0
            for b in range(d + 1):
                w.A[arm, a, b] = 0.0
    moved, row = 0, 0
    for t in range(n - 1):
        row += cells.moves[t]
    for t in range(n - 1, -1, -1):
        arm, S, v = cells.arm[t], w.S[t], w.v[t]
        moves = cells.moves[t] and t < n - 1  # no cell depends on the move after the last one
        if moves:
            multiply_vector(d, e, G, r, x, 2)
            multiply(d, e, N, G, NG)
            for a in range(d):
                for b in range(e):
                    B[a, b] = 0.0
                for j in range(d):
                    add_row(e, B, a, G[j, a], NG, j)
            mirror(d, B)
        if moves or t == n - 1:  # the other cells of a row have the state of its last one
            for a in range(d):
                z[a] = w.z[row, a]
                for b in range(e):
                    F[a, b] = w.F[(row * d + a) * e + b]
            for b in range(d):
                add_row(e, x, 1, g[b], F, b)
            multiply(d, e, B, F, X)
            for a in range(d):
                for b in range(e):
                    V[a, b] = F[a, b] + z[a] * z[b]
                for j in range(d):
                    add_row(e, V, a, -F[a, j], X, j)
            mirror(d, V)
        if moves:
            moved += 1
            multiply(d, e, NG, F, X)
            for a in range(d):
                for b in range(e):
                    S00[a, b] += V[a, b]
                    S11[a, b] += last[a, b]
                    cross[a, b] += r[a] * z[b] - X[a, b]
                    N[a, b] = B[a, b]
            for a in range(e):
                r[a] = g[a]
        if arm >= 0:
            weight, A = w.weight[t], w.A[arm]
            y = cells.y[t]
            for a in range(d):
                c[a], K[a] = p.C[arm, a], w.K[t, a]
                w.b[arm, a] += weight * y * z[a]
                A[d, a] += weight * z[a]
                for b in range(a + 1):
                    A[a, b] += weight * V[a, b]
            A[d, d] += weight
            w.b[arm, d] += weight * y
            w.yy[arm] += weight * y * y
            multiply_vector(d, e, N, K, x, 3)
            Kg, KBK = 0.0, 0.0
            for a in range(d):
                Kg += K[a] * r[a]
                KBK += K[a] * after[a]
            for a in range(e):
                r[a] += c[a] * (v / S - Kg)
            for a in range(d):
                for b in range(e):
                    N[a, b] = N[a, b] - after[a] * c[b] - c[a] * after[b] + c[a] * c[b] * (KBK + 1 / S)
            mirror(d, N)
        if t > 0 and cells.moves[t - 1]:
            row -= 1
            for a in range(d):
                for b in range(e):
                    last[a, b] = V[a, b]
    for arm in range(p.C.shape[0]):
        for a in range(d + 1):
            for b in range(a):
                w.A[arm, b, a] = w.A[arm, a, b]
    product(d, p.Q, cross, X)
    product(d, p.G, S00, B)
    for a in range(d):
        for b in range(d):
            w.S00[a, b], w.S11[a, b] = S00[a, b], S11[a, b]
            w.S10[a, b] = B[a, b] + X[a, b]
    return moved
