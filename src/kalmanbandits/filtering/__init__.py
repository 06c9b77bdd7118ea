"""Predicting rewards when the system is known: the Kalman filter, the paper's modified one, and windows."""

from kalmanbandits.extremes import guard
from kalmanbandits.filtering.kalman import KalmanFilter
from kalmanbandits.filtering.modified import ModifiedFilter
from kalmanbandits.filtering.window import (
    WindowPredictor,
    bias_coefficients,
    bias_deviation,
    mean_norm,
    modified_window,
    optimal_window,
    window_moments,
)

__all__ = [
    "KalmanFilter", "ModifiedFilter", "WindowPredictor", "bias_coefficients", "bias_deviation", "mean_norm",
    "modified_window", "optimal_window", "window_moments",
]  # fmt: skip

guard(globals(), __all__)
