"""The first rounds of policies that need the rewards' centre and unit before they can work.

Arms are played in turn (the index is minus the number of rewards seen of the arm) and the rounds are kept.
When all have come, the mean of the rewards is the centre and their standard deviation the unit, for good:

    x = (X − centre)/unit

and all those rounds are learned from at once. With a given scale the centre is 0 and the unit that scale.
Rewards that are all equal have no unit: the opening is then played again.
"""

from __future__ import annotations

import math
from typing import Any

from kalmanbandits.compilation import routine

NO_REWARD = -1  # in place of the arm, in a round whose reward never came


def opening_fields(rounds: int) -> list[tuple[Any, ...]]:
    """The first rounds, how many have come, and what they gave."""
    return [
        ("early_arm", "i8", (rounds,)),
        ("early_reward", "f8", (rounds,)),
        ("early", "i8"),
        ("opened", "i8"),
        ("given", "f8"),
        ("centre", "f8"),
        ("unit", "f8"),
    ]


@routine
def gather(memory: Any, arm: Any, reward: Any) -> Any:
    """How many rounds of `early_arm` and `early_reward`, with this one, are to be learned from now.

    None during the opening, all at its end, and this one alone ever after.
    """
    rounds = memory.early_arm.shape[0]
    memory.early_arm[memory.early] = arm
    memory.early_reward[memory.early] = reward
    if memory.opened == 1:
        return 1
    memory.early += 1
    if memory.early < rounds:
        return 0
    memory.early = 0
    n, total, low, high = 0, 0.0, math.inf, -math.inf
    for t in range(rounds):
        if memory.early_arm[t] != NO_REWARD:
            n += 1
            total += memory.early_reward[t]
            low, high = min(low, memory.early_reward[t]), max(high, memory.early_reward[t])
    if memory.given > 0:
        memory.unit = memory.given
    elif high > low:
        memory.centre = total / n
        square = 0.0
        for t in range(rounds):
            if memory.early_arm[t] != NO_REWARD:
                square += (memory.early_reward[t] - memory.centre) ** 2
        memory.unit = math.sqrt(square / n)
    if memory.unit == 0:
        return 0
    memory.opened = 1
    return rounds
