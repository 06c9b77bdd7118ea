"""What UBSS learns with constants given: the paper's regression and the widths of its bounds, literally."""

from __future__ import annotations

import math
from typing import Any

from kalmanbandits.compilation import jit
from kalmanbandits.filtering.kalman import correct

BONUSES = ("none", "scaled", "printed", "gaussian")
NONE, SCALED, PRINTED, GAUSSIAN = range(4)


@jit
def learn_given(memory: Any, c: Any, arm: Any, x: Any) -> None:
    """The paper's: recursive least squares, then the width of equations (e_…) and (b_probabilistic_bound)."""
    U, D, G, lambda_, s = (
        memory.U[c, arm],
        memory.D[c, arm],
        memory.G[c, arm],
        memory.lambda_,
        memory.Xi.shape[0],
    )
    correct(G, U, D, memory.Xi, 1.0, x, memory.gain)
    memory.N[c, arm] += 1
    if memory.bonus == NONE:
        return
    N, trace, determinant = memory.N[c, arm], 0.0, 1.0  # tr V⁻¹, det λV⁻¹
    for j in range(s):
        column = 1.0
        for i in range(j):
            column += U[i, j] * U[i, j]
        trace += D[j] * column
        determinant *= lambda_ * D[j]
    e = math.sqrt(max(memory.log_e - math.log(determinant), 0.0))
    known = math.sqrt(max(s - lambda_ * trace, 0.0))  # √tr(I − λV⁻¹)
    shrinkage = lambda_ * math.sqrt(trace)
    beta = math.sqrt(N) * memory.B_c * memory.B_R
    if memory.bonus == PRINTED:
        b_bound = beta / memory.delta_b * known + shrinkage * memory.B_G
    else:
        beta *= math.sqrt(2 * math.log(2 * N / memory.delta_b))
        b_bound = beta * min(1.0, known) + min(math.sqrt(lambda_), shrinkage) * memory.B_G
    memory.width[c, arm] = memory.B_R * e + b_bound
