"""A filter by hand: what one arm's reward says about another's.

python examples/known_system.py
"""

import numpy as np

from kalmanbandits.filtering.kalman import KalmanFilter
from kalmanbandits.systems import rotation

system = rotation(theta=5 * np.pi / 8)
kalman = KalmanFilter(system)

before = np.sqrt(kalman.variances)
for reward in (120.0, -45.0, 80.0):  # three rewards of arm 0, none of arm 1
    kalman.correct(arm=0, reward=reward)
    kalman.predict()
after = np.sqrt(kalman.variances)

for arm in range(system.arms):
    expected, sd = kalman.rewards[arm], f"{before[arm]:6.1f} → {after[arm]:5.1f}"
    print(f"arm {arm}: expected {expected:8.2f}, standard deviation {sd}")
assert after[1] < 0.4 * before[1]  # arm 1 was never pulled, and is known well
