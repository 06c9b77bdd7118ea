"""What is not known of an arm seldom seen, when the state it was seen in is not known either.

The M-step takes the smoothed state z for what the arm's rewards are regressed on. But with few rewards around
it, z is known by the arm's own reward, through the very loadings that are in question: they confirm
themselves, and an arm seen while the state happened to be small is taken to be without loadings for ever. So
each reward is regressed on what the *others* tell of the state, N(z₋, P₋), whose variance adds to the noise:

    U_a⁻¹ = Σ x₋x₋'/(σ²_a + c_a'P₋c_a) + prior⁻¹,    x₋ = (z₋, 1)
    P₋ = P + Pcc'P/(s − c'Pc),    z₋ = z − Pc(y − μ − c'z)/(s − c'Pc)

with s the variance of the reward given the state, σ²_a and what is not known of the loadings.
"""

from __future__ import annotations

from typing import Any

from kalmanbandits.compilation import entry, routine
from kalmanbandits.identification.arrays import row_width
from kalmanbandits.identification.lanes import by_reference
from kalmanbandits.identification.linear_algebra import invert, product
from kalmanbandits.identification.smoothing import loading_variance

SELDOM = 12  # rewards up to which an arm is seldom seen
OWN = 0.999  # of a reward's variance, that the state's may be; beyond, it alone tells of the state


def doubt_arms(d: int, p: Any, cells: Any, n: int, w: Any, seldom: Any) -> None:
    """After `filter_cells`: the covariance U_a of the arms in `seldom` (k, as 0 or 1), one cell per round."""
    _doubt_arms(d, row_width(d), p, cells, n, w, seldom)


@entry
def _doubt_arms(d: Any, e: Any, p: Any, cells: Any, n: Any, w: Any, seldom: Any) -> None:
    p, cells, w = by_reference(p), by_reference(cells), by_reference(w)
    G, N, B, T, P = w.M[0], w.M[1], w.M[2], w.M[3], w.M[4]
    r, g, z, x, Pc = w.M[5, 0], w.M[5, 1], w.M[6, 0], w.M[6, 1], w.M[7, 0]
    for arm in range(p.C.shape[0]):
        for a in range(d + 1):
            for b in range(d + 1):
                w.A[arm, a, b] = 0.0
    for a in range(d):
        r[a] = 0.0
        for b in range(d):
            G[a, b], N[a, b] = p.G[a, b], 0.0
    for t in range(n - 1, -1, -1):
        for a in range(d):  # g = Γ'r and B = Γ'NΓ: what later rounds tell, as of this one
            g[a] = 0.0
            for b in range(d):
                g[a] += G[b, a] * r[b]
        product(d, N, G, T)
        for a in range(d):
            for b in range(d):
                B[a, b] = 0.0
                for j in range(d):
                    B[a, b] += G[j, a] * T[j, b]
        arm = cells.arm[t]
        if arm >= 0 and seldom[arm]:
            for a in range(d):
                for b in range(d):
                    P[a, b] = w.F[(t * d + a) * e + b]
            for a in range(d):
                z[a] = w.z[t, a]
                for b in range(d):
                    z[a] += P[a, b] * g[b]
            product(d, B, P, T)
            for a in range(d):
                for b in range(d):
                    P[a, b] = w.F[(t * d + a) * e + b]
                    for j in range(d):
                        P[a, b] -= w.F[(t * d + a) * e + j] * T[j, b]
            _add_reward(d, p, arm, cells.y[t], z, P, x, Pc, w.A[arm])
        for a in range(d):
            r[a] = g[a]
            for b in range(d):
                N[a, b] = B[a, b]
        if arm >= 0:
            S, Kg, KBK = w.S[t], 0.0, 0.0
            for a in range(d):
                x[a] = 0.0
                for b in range(d):
                    x[a] += B[a, b] * w.K[t, b]
                Kg += w.K[t, a] * g[a]
                KBK += w.K[t, a] * x[a]
            for a in range(d):
                r[a] += p.C[arm, a] * (w.v[t] / S - Kg)
                for b in range(d):
                    c = p.C[arm, a] * p.C[arm, b]
                    N[a, b] += c * (KBK + 1 / S) - x[a] * p.C[arm, b] - p.C[arm, a] * x[b]
    for arm in range(p.C.shape[0]):
        if seldom[arm]:
            _invert(d, p, arm, w)


@routine
def _add_reward(d: Any, p: Any, arm: Any, y: Any, z: Any, P: Any, x: Any, Pc: Any, A: Any) -> None:
    """Add to `A` what a reward in the smoothed state N(z, P) tells of its arm; `x` and `Pc` are scratch."""
    known, v = 0.0, y - p.mu[arm]
    for a in range(d):
        Pc[a] = 0.0
        for b in range(d):
            Pc[a] += P[a, b] * p.C[arm, b]
        known += p.C[arm, a] * Pc[a]
        v -= p.C[arm, a] * z[a]
    s = p.s2[arm] + loading_variance(d, p.U[arm], z, P)
    if known >= OWN * s:
        return
    for a in range(d):
        x[a] = z[a] - Pc[a] * v / (s - known)
    x[d] = 1.0
    noise = p.s2[arm] + known * s / (s - known)
    for a in range(d + 1):
        for b in range(d + 1):
            A[a, b] += x[a] * x[b] / noise


@routine
def _invert(d: Any, p: Any, arm: Any, w: Any) -> None:
    """The posterior covariance from the sums `w.A[arm]`, the arm's past and its prior."""
    A, past, D = w.A[arm], p.past[arm], p.G.shape[0]
    for a in range(d + 1):
        for b in range(d + 1):
            A[a, b] += past[a if a < d else D, b if b < d else D] / p.s2[arm]
        A[a, a] += 1 / p.prior[arm, 0 if a < d else 2]
    invert(A, w.M[0], w.r[0], p.U[arm], d + 1)
