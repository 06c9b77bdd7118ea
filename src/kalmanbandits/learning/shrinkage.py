"""Ridge regressions on longer and longer windows, each drawn towards the one before it.

    V_s = Σ ΞΞ'    b_s = Σ ΞX        over the rounds in which the arm was played after the last s actions
    Ĝ_s = (V_s + Λ_s)⁻¹ (b_s + Λ_s (Ĝ_{s−1}, 0)),    Ĝ_0 = 0        Ξ the last s rewards, newest first

Were the longer predictor the shorter one plus something small, G_s given G_{s−1} being N((G_{s−1}, 0), τ_s²)
with Λ_s = σ²/τ_s², and Ĝ_{s−1} known from other rounds, this would be its posterior mean. It is a heuristic:
the shorter window has the longer one's rounds among its own, so they count twice, and it is not revised by
what its other continuations say. What has never been seen predicts as the next shorter window does, and every
observation moves it away from that by as much as it is worth. The variance takes Ĝ_{s−1} for independent too:

    Var(Ĝ_s'Ξ) ≈ σ² Σ_{j=s…1} x_j'(V_j + Λ_j)⁻¹x_j
    x_s = Ξ,   x_{j−1} = Λ_j (V_j + Λ_j)⁻¹x_j less its last entry

which is never above the exact one of that hierarchy. After a few rounds of a sequence it is about a tenth
below it, at times a half; after a hundred rounds a hundredth. The width of an index built on it is a rule of
thumb, not a quantile.

A model whose arm was last played n visits of its sequence ago counts less, V and b divided by 1 + (n/200)².
Λ changes with the estimate of σ², so no inverse is kept: at most 4 × 4 numbers are factored anew whenever
they are needed. A memory `m` of S windows and k arms has a row of V (S, S), b (S) and N for each sequence of
1 … S actions and each arm; Ξ, the code of the last S actions, and room for the work.
"""

from __future__ import annotations

from typing import Any

from kalmanbandits.compilation import Field, jit, routine
from kalmanbandits.learning.ridge import staleness

PRIOR = 1.0  # τ_1²: rewards have no other unit than the last one, so coefficients are of the order of one
DEVIATION = 0.25  # τ_s² for s > 1


def shrunk_fields(arms: int, longest: int) -> list[Field]:
    """The models of all windows up to the longest."""
    S, pairs = longest, (sum(arms**s for s in range(1, longest + 1)), arms)
    return [
        ("V", "f8", (*pairs, S, S)),  # lower triangles
        ("b", "f8", (*pairs, S)),
        ("N", "i8", pairs),
        ("last", "i8", pairs),  # the visit of the sequence at which the arm was last played
        ("visits", "i8", pairs[:1]),
        ("Xi", "f8", (S,)),  # newest first
        ("code", "i8"),
        ("work_G", "f8", (S, S)),
        ("work_L", "f8", (S, S, S)),
        ("work_x", "f8", (2, S)),
    ]


@jit
def node(code: Any, arms: Any, window: Any) -> Any:
    """The row of the models of a window: those of window 1 come first, in the order of their codes.

    `code` may hold more actions than the window; the newest count.
    """
    first, codes = 0, arms
    for _ in range(window - 1):
        first += codes
        codes *= arms
    return first + code % codes


@jit
def stiffness(noise: Any, window: Any) -> Any:
    """Λ_s = σ²/τ_s²."""
    return noise / (PRIOR if window == 1 else DEVIATION)


@jit
def factor_ridge(V: Any, weight: Any, lambda_: Any, L: Any, n: Any) -> None:
    """wV + λI = LDL', L below the diagonal of `L` and 1/D on it. No pivot is below λ but by rounding."""
    for i in range(n):
        for j in range(i):
            total = weight * V[i, j]
            for m in range(j):
                total -= L[i, m] * L[j, m]
            L[i, j] = total
        pivot = weight * V[i, i] + lambda_
        for j in range(i):
            total = L[i, j] * L[j, j]
            pivot -= L[i, j] * total
            L[i, j] = total
        L[i, i] = 1 / max(pivot, lambda_)


@jit
def solve_factored(L: Any, x: Any, n: Any) -> None:
    """x ← (LDL')⁻¹x."""
    for i in range(1, n):
        for j in range(i):
            x[i] -= L[i, j] * x[j]
    for i in range(n - 1, -1, -1):
        x[i] *= L[i, i]
        for j in range(i + 1, n):
            x[i] -= L[j, i] * x[j]


@jit
def freshness(m: Any, row: Any, arm: Any) -> Any:
    """What is left of what is known of an arm after a sequence: 1/(1 + (n/200)²), n the visits since."""
    return 1 / staleness(m.visits[row] - m.last[row, arm])


@routine
def fit_shrunk(m: Any, arm: Any, noise: Any, windows: Any) -> None:
    """Ĝ_s and the factor of V_s + Λ_s for s = 1 … `windows`, into the rows of `work_G` and `work_L`."""
    k, G = m.pulls.shape[0], m.work_G
    for i in range(windows):
        s, row = i + 1, node(m.code, k, i + 1)
        lambda_, weight = stiffness(noise, s), freshness(m, row, arm)
        factor_ridge(m.V[row, arm], weight, lambda_, m.work_L[i], s)
        for j in range(s):
            G[i, j] = weight * m.b[row, arm, j]
            if j < i:
                G[i, j] += lambda_ * G[i - 1, j]
        solve_factored(m.work_L[i], G[i], s)


@jit
def shrunk_prediction(m: Any, window: Any) -> Any:
    """Ĝ_s'Ξ, after `fit_shrunk`."""
    total = 0.0
    for j in range(window):
        total += m.work_G[window - 1, j] * m.Xi[j]
    return total


@routine
def shrunk_variance(m: Any, noise: Any, window: Any) -> Any:
    """Var(Ĝ_s'Ξ), after `fit_shrunk`."""
    x, u, total = m.work_x[0], m.work_x[1], 0.0
    for j in range(window):
        x[j] = m.Xi[j]
    for s in range(window, 0, -1):
        for j in range(s):
            u[j] = x[j]
        solve_factored(m.work_L[s - 1], u, s)
        lambda_ = stiffness(noise, s)
        for j in range(s):
            total += u[j] * x[j]
            x[j] = lambda_ * u[j]
    return noise * total


@jit
def note_pair(m: Any, arm: Any, x: Any, windows: Any, weight: Any) -> None:
    """Take in a reward of `arm` after the last actions and rewards, for s = 1 … `windows`."""
    for i in range(windows):
        row = node(m.code, m.pulls.shape[0], i + 1)
        left = freshness(m, row, arm)
        m.N[row, arm] += 1
        m.visits[row] += 1
        m.last[row, arm] = m.visits[row]
        for j in range(i + 1):
            m.b[row, arm, j] = left * m.b[row, arm, j] + weight * m.Xi[j] * x
            for n in range(j + 1):  # the lower triangle is all that is read
                m.V[row, arm, j, n] = left * m.V[row, arm, j, n] + weight * m.Xi[j] * m.Xi[n]
