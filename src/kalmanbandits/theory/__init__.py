"""Every bound of the paper as a function, next to the form that holds; each result says whether it is one.

| in the paper | as printed | corrected or sharper |
|---|---|---|
| Theorem 1, Var γ | `error_variance_printed` | `error_variance`, `error_second_moment` (any policy) |
| remark, β decays | no rate | `beta` (any policy, any path), `beta_deviation` |
| e(δ_e) | `e` | `e_corrected` (any policy) |
| b(δ_b) | `b` | `b_gaussian`, `b_markov`, with `window_bias` or `window_bias_any_policy` |
| λ√tr(V⁻¹)B_G | `regularisation` (valid) | `regularisation_sharper` |
| σ(δ_e, δ_b) | `sigma` | `sigma_corrected` |
| (1 − δ_e)(1 − δ_b) | `all_pairs_printed` | `all_pairs` |
| determinant | `log_determinant` | `log_determinant_corrected`, `log_determinant_stationary` |
| B(δ\\|𝐜) | `B` | `B_corrected` |
| regret theorem | `regret_printed` | `regret_any_policy`, `regret_random`, `regret_greedy` |
| regret for a free u_a | `regret_exploration_printed` | the same |
| best obtainable | open | `best_obtainable`, `regret_floor`, `regret_floor_per_round` |
"""

from kalmanbandits.extremes import guard
from kalmanbandits.theory.best import Bracket, best_obtainable
from kalmanbandits.theory.bias import (
    b,
    b_gaussian,
    b_markov,
    regularisation,
    regularisation_sharper,
    window_bias,
    window_bias_any_policy,
)
from kalmanbandits.theory.bound import Bound, union_probability
from kalmanbandits.theory.determinant import (
    B,
    B_corrected,
    log_determinant,
    log_determinant_corrected,
    log_determinant_stationary,
)
from kalmanbandits.theory.ellipsoids import (
    all_pairs,
    all_pairs_printed,
    e,
    e_corrected,
    sigma,
    sigma_corrected,
)
from kalmanbandits.theory.gaussian import expected_maximum, expected_maximum_gap
from kalmanbandits.theory.limits import full_information_covariance, regret_floor, regret_floor_per_round
from kalmanbandits.theory.modified import (
    beta,
    beta_deviation,
    error_second_moment,
    error_variance,
    error_variance_printed,
)
from kalmanbandits.theory.regret import (
    regret_any_policy,
    regret_exploration_printed,
    regret_greedy,
    regret_printed,
    regret_random,
)

__all__ = [
    "B", "B_corrected", "Bound", "Bracket", "all_pairs", "all_pairs_printed", "b", "b_gaussian", "b_markov",
    "best_obtainable", "beta", "beta_deviation", "e", "e_corrected", "error_second_moment",
    "error_variance", "error_variance_printed", "expected_maximum", "expected_maximum_gap",
    "full_information_covariance", "log_determinant", "log_determinant_corrected",
    "log_determinant_stationary", "regret_any_policy", "regret_exploration_printed", "regret_floor",
    "regret_floor_per_round", "regret_greedy", "regret_printed", "regret_random", "regularisation",
    "regularisation_sharper", "sigma", "sigma_corrected", "union_probability", "window_bias",
    "window_bias_any_policy",
]  # fmt: skip

guard(globals(), __all__)
