"""The E-step on a whole table: filter and smoother when any number of arms is observed in a round.

    z_{t+1} = Γz_t + ξ_t,  ξ ~ N(0, Q)        y_{t,a} = c_a'z_t + μ_a + η_{t,a},  η ~ N(0, σ²)

The cells of a row are taken in one after the other, as scalar measurements between which the state stands
still; a missing cell is no measurement. With J = Σ c_a c_a'/σ² over the cells present, F the covariance after
them and W = I − FJ, so that F = WP, the smoother needs no inverse:

    r_{t−1} = W'Γ'r_t + g_t       g_t = W'C'(y − μ − Cẑ_t)/σ²
    N_{t−1} = W'Γ'N_tΓW + W'J     E z_t = ẑ_t + P_t r_{t−1}      Var z_t = P_t − P_t N_{t−1} P_t
    Cov(z_{t+1}, z_t) = (I − P_{t+1}N_t) Γ F_t

Durbin and Koopman, "Time Series Analysis by State Space Methods", chapter 4 and section 6.4.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kalmanbandits.compilation import entry
from kalmanbandits.identification.linear_algebra import product
from kalmanbandits.identification.smoothing import propagate


@entry
def filter_rows(
    y: Any, G: Any, C: Any, mu: Any, Q: Any, s2: Any, z: Any, P: Any, F: Any, g: Any, errors: Any
) -> Any:
    """Filter a table from z ~ N(0, I); returns the log-likelihood.

    Writes for every row the prediction `z` (T, d), its covariance `P` (T, d, d), the covariance `F` (T, d, d)
    after the row, and `g` (T, d); adds the squared one-step errors of each arm to `errors` (k,).
    """
    T, k = y.shape
    d = G.shape[0]
    state, K, M, cov = np.zeros(d), np.zeros(d), np.zeros((d, d)), np.zeros((d, d))
    for i in range(d):
        cov[i, i] = 1.0
    likelihood = 0.0
    for t in range(T):
        for i in range(d):  # entry by entry, here and below: assigning whole arrays takes seconds to compile
            z[t, i] = state[i]
            for j in range(d):
                P[t, i, j] = cov[i, j]
        for a in range(k):
            if math.isnan(y[t, a]):
                continue
            first = y[t, a] - mu[a]
            v, S = first, s2
            for i in range(d):
                first -= C[a, i] * z[t, i]
                v -= C[a, i] * state[i]
                total = 0.0
                for j in range(d):
                    total += cov[i, j] * C[a, j]
                K[i] = total
                S += C[a, i] * total
            errors[a] += first * first
            likelihood -= 0.5 * (math.log(2 * math.pi * S) + v * v / S)
            for i in range(d):
                state[i] += K[i] * v / S
                for j in range(d):
                    cov[i, j] -= K[i] * K[j] / S
        for i in range(d):
            for j in range(d):
                F[t, i, j] = cov[i, j]
        # g = W'C'(y − μ − Cẑ)/σ² = C'(y − μ − C·(state after the row))/σ²
        for i in range(d):
            g[t, i] = 0.0
        for a in range(k):
            if not math.isnan(y[t, a]):
                v = y[t, a] - mu[a]
                for i in range(d):
                    v -= C[a, i] * state[i]
                for i in range(d):
                    g[t, i] += C[a, i] * v / s2
        propagate(d, G, Q, state, cov, M)
    return likelihood


@entry
def smooth_rows(
    y: Any,
    G: Any,
    C: Any,
    s2: Any,
    z: Any,
    P: Any,
    F: Any,
    g: Any,
    A: Any,
    b: Any,
    S00: Any,
    S10: Any,
    S11: Any,
) -> None:
    """After `filter_rows`: the sums of E zz', E z⁺z', E z⁺z⁺', and of each arm's regression on (z, 1).

    Shapes: `A` (k, d + 1, d + 1), `b` (k, d + 1), `S00`, `S10`, `S11` (d, d), all zero before.
    """
    T, k = y.shape
    d = G.shape[0]
    r, mean, mean_after, u = np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d)
    room = np.zeros((10, d, d))
    N, J, W, V, V_after = room[0], room[1], room[2], room[3], room[4]
    GF, PN, lag, X, Y = room[5], room[6], room[7], room[8], room[9]
    for t in range(T - 1, -1, -1):
        if t < T - 1:  # from r and N of the round after, before they move back
            product(d, G, F[t], GF)
            product(d, P[t + 1], N, PN)
            product(d, PN, GF, lag)
        for i in range(d):
            for j in range(d):
                J[i, j] = 0.0
        for a in range(k):
            if not math.isnan(y[t, a]):
                for i in range(d):
                    for j in range(d):
                        J[i, j] += C[a, i] * C[a, j] / s2
        product(d, F[t], J, W)
        for i in range(d):
            for j in range(d):
                W[i, j] = (1.0 if i == j else 0.0) - W[i, j]
        product(d, G, W, X)  # L = ΓW
        for i in range(d):
            total = g[t, i]
            for j in range(d):
                total += X[j, i] * r[j]
            u[i] = total
        product(d, N, X, Y)
        for i in range(d):
            r[i] = u[i]
        for i in range(d):
            for j in range(d):
                total = 0.0
                for m in range(d):
                    total += X[m, i] * Y[m, j] + W[m, i] * J[m, j]
                N[i, j] = total
        for i in range(d):  # rounding must not make it lopsided
            for j in range(i):
                N[i, j] = N[j, i] = 0.5 * (N[i, j] + N[j, i])
        product(d, P[t], N, PN)
        product(d, PN, P[t], X)
        for i in range(d):
            total = z[t, i]
            for j in range(d):
                total += P[t, i, j] * r[j]
            mean[i] = total
        for i in range(d):
            for j in range(d):
                V[i, j] = P[t, i, j] - X[i, j] + mean[i] * mean[j]
        for i in range(d):
            for j in range(d):
                if t < T - 1:
                    S00[i, j] += V[i, j]
                    S11[i, j] += V_after[i, j]
                    S10[i, j] += GF[i, j] - lag[i, j] + mean_after[i] * mean[j]
        for a in range(k):
            if not math.isnan(y[t, a]):
                for i in range(d):
                    b[a, i] += y[t, a] * mean[i]
                    A[a, i, d] += mean[i]
                    A[a, d, i] += mean[i]
                    for j in range(d):
                        A[a, i, j] += V[i, j]
                A[a, d, d] += 1.0
                b[a, d] += y[t, a]
        for i in range(d):
            mean_after[i] = mean[i]
            for j in range(d):
                V_after[i, j] = V[i, j]
