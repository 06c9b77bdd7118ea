"""Compare policies on a system of one's own: the regret per round of each, with its standard error.

python examples/compare_policies.py
"""

import numpy as np

import kalmanbandits as kb

# Two prices that follow a common, slowly turning demand, seen through noise.
system = kb.LinearGaussianSystem(
    transition=0.98 * np.array([[np.cos(0.4), np.sin(0.4)], [-np.sin(0.4), np.cos(0.4)]]),
    actions=[[1.0, 0.0], [0.3, 1.0]],
    process_noise=0.2 * np.eye(2),
    noise_variance=0.5,
)
print(system.check())

policies = {
    "Random": kb.Random(arms=2),
    "UCB": kb.UCB(arms=2),
    "UBSS": kb.UBSS(arms=2, window=2),
    "KalmanGreedy": kb.KalmanGreedy(system),
    "FullInformation": kb.FullInformation(system),
}
rounds, runs = 5000, 20
result = kb.simulate(system, policies, rounds=rounds, runs=runs, seed=1)
per_round = result.regret.sel(checkpoint=rounds) / rounds

print("\nregret per round")
for name in policies:
    values = per_round.sel(policy=name).values
    print(f"  {name:16s} {values.mean():7.4f} ± {values.std(ddof=1) / np.sqrt(runs):.4f}")

mean = per_round.mean("run")
assert mean.sel(policy="FullInformation") < mean.sel(policy="KalmanGreedy") < mean.sel(policy="UBSS")
assert mean.sel(policy="UBSS") < mean.sel(policy="UCB")
