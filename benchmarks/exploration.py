"""What learning the loadings alone costs: a policy that sees the state, against those that know the system.

    python benchmarks/exploration.py [--group structured] [--systems 12] [--runs 1]

It sees z_t before every choice and knows each arm's noise and the mean square of all loadings; an arm's
loadings c_a are what it has to learn, by Bayesian regression of the arm's rewards on z_t:

    index_a = ĉ_a'z + √((1 + ½ log(1 + t·u_a/(u_a + σ²_a))) u_a),    u_a = z'U_a z

`LearnedKalman` has to find the state, its dynamics and the noises as well, so it can hardly lose less. The
ratio is that of benchmarks/regret.py, 1 + (regret of this policy)/(regret of the best that knows the system):
where it is large, no learner comes close to the best. Worlds are those of the development seed.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from regret import known
from worlds import DEVELOPMENT, GROUPS, World, draw

import kalmanbandits as kb


def explore(world: World, random: np.random.Generator) -> float:
    """The regret of the policy that sees the state, in one run."""
    system = world.system
    assert system is not None
    Γ, C = np.asarray(system.transition), np.asarray(system.actions)
    remembered = np.any(Γ != 0, axis=1) | np.any(Γ != 0, axis=0)  # the others are the arms' own noises
    noise = system.noise_variance + np.sum(C[:, ~remembered] ** 2, axis=1)
    states = _states(system, world.rounds, random)[:, remembered]
    scale = np.linalg.cholesky(states.T @ states / world.rounds + 1e-12 * np.eye(states.shape[1]))
    states, C = np.linalg.solve(scale, states.T).T, C[:, remembered] @ scale
    k, d = C.shape
    U = np.tile(np.mean(C**2) * np.eye(d), (k, 1, 1))
    learned, regret = np.zeros((k, d)), 0.0
    for t, z in enumerate(states):
        Uz = U @ z
        u = Uz @ z
        arm = int(np.argmax(learned @ z + np.sqrt((1 + 0.5 * np.log1p(t * u / (u + noise))) * u)))
        means = C @ z
        regret += float(means.max() - means[arm])
        reward = means[arm] + np.sqrt(noise[arm]) * random.standard_normal()
        S = u[arm] + noise[arm]
        learned[arm] += Uz[arm] * (reward - learned[arm] @ z) / S
        U[arm] -= np.outer(Uz[arm], Uz[arm]) / S
    return regret


def _states(system: kb.LinearGaussianSystem, rounds: int, random: np.random.Generator) -> Any:
    """States (rounds, d) of one run."""
    d = system.dimension
    z = random.multivariate_normal(system.initial_mean, system.initial_covariance, method="svd")
    moves = random.multivariate_normal(np.zeros(d), system.process_noise, size=rounds, method="svd")
    states = np.empty((rounds, d))
    for t in range(rounds):
        states[t] = z
        z = system.transition @ z + moves[t]
    return states


def ratio(world: World, number: int, runs: int) -> float:
    """1 + what exploring costs over what the best that knows the system loses."""
    assert world.system is not None
    result = kb.simulate(world.system, known(world.system), rounds=world.rounds, runs=runs, seed=number)
    best = float(result.regret.isel(checkpoint=-1).mean("run").min())
    costs = [explore(world, np.random.default_rng([DEVELOPMENT, number, run])) for run in range(runs)]
    return 1 + float(np.mean(costs)) / best if best > 0 else float("inf")


def main() -> None:
    """Print a line per world and the median."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--group", choices=[name for name in GROUPS if name != "outside"], default="structured"
    )
    parser.add_argument("--systems", type=int, default=12)
    parser.add_argument("--runs", type=int, default=1)
    asked = parser.parse_args()
    found = []
    for number in range(asked.systems):
        world = draw(asked.group, number, DEVELOPMENT)
        found.append(ratio(world, number, asked.runs))
        print(f"{number:3d}  {world.name:44s} {found[-1]:6.2f}", flush=True)
    print(f"geometric mean {np.exp(np.mean(np.log(found))):.3f}, median {np.median(found):.2f}")


if __name__ == "__main__":
    main()
