"""Systems drawn by hypothesis: any size, unit, radius and rank of noise that the library promises to take."""

import numpy as np
from hypothesis import strategies as st

from kalmanbandits.systems import LinearGaussianSystem

NICE = {"max_examples": 25, "deadline": None}


@st.composite
def systems(draw, largest_radius=0.99, units=6.0, arms=3, dimension=8):
    """Random Γ scaled to a radius, singular or full Q, then each state's unit changed at will."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d, k = draw(st.integers(1, dimension)), draw(st.integers(1, arms))
    transition = rng.standard_normal((d, d))
    if draw(st.booleans()):
        transition = np.triu(transition)
    radius = draw(st.sampled_from([0.1, 0.5, 0.9, largest_radius]))
    transition *= radius / max(np.abs(np.linalg.eigvals(transition)).max(), 1e-3)
    root = rng.standard_normal((d, draw(st.integers(1, d))))
    unit = 10 ** rng.uniform(-units, units, d) if draw(st.booleans()) else np.ones(d)
    return LinearGaussianSystem(
        transition=transition * unit[:, None] / unit,
        actions=rng.standard_normal((k, d)) / unit,
        process_noise=root @ root.T * unit * unit[:, None],
        noise_variance=10 ** rng.uniform(-4, 4),
    )


def summed(transition, noise, terms=6000):
    """Σ_j Γ^j N Γ'^j, term by term."""
    total, power = np.zeros_like(noise), np.eye(len(noise))
    for _ in range(terms):
        total += power @ noise @ power.T
        power = transition @ power
    return total


def filtered(system, action, rounds=6000):
    """The filter's covariance after many rounds of one arm, from Σ, in the textbook form."""
    Γ, P = system.transition, system.stationary_covariance
    for _ in range(rounds):
        gain = P @ action / (action @ P @ action + system.noise_variance)
        P = Γ @ (P - np.outer(gain, action @ P)) @ Γ.T + system.process_noise
        P = (P + P.T) / 2
    return P


def apart(first, second, scale):
    """The largest difference of two covariances, in standard deviations of `scale`."""
    sd = np.sqrt(np.diag(scale))
    return np.max(np.abs(first - second) / np.outer(sd, sd))
