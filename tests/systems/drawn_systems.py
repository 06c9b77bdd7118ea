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


def standardised(system):
    """Γ, C and Q in units of each state's standard deviation, and these; SciPy's solvers need such units."""
    sd = np.sqrt(np.diag(system.stationary_covariance))
    Γ, Q = system.transition * sd / sd[:, None], system.process_noise / np.outer(sd, sd)
    return Γ, system.actions * sd, Q, sd


def apart(first, second, scale):
    """The largest difference of two covariances, in standard deviations of `scale`."""
    sd = np.sqrt(np.diag(scale))
    return np.max(np.abs(first - second) / np.outer(sd, sd))
