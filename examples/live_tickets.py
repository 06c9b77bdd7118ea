"""An agent in a service whose answers come late, out of order or never, and which may stop at any moment.

Its arms have names, and its rewards are costs: the fewer minutes the better.

python examples/live_tickets.py
"""

import math
import random
import tempfile
from pathlib import Path

import kalmanbandits as kb


def minutes(route: int, hour: float) -> float:
    """How long a delivery takes: each route has its rush hours."""
    return 30 + 8 * math.sin(hour / 4 + 2.1 * route) + random.gauss(0, 1)


random.seed(0)
ROUTES = ["bridge", "ring", "tunnel", "valley"]  # the last one is opened on the way
folder = Path(tempfile.mkdtemp()) / "routes"
under_way: list[
    tuple[float, kb.agent.Ticket, float]
] = []  # when it arrives, which choice it was, how long it took
delivered = lost = 0

for day in range(4):  # the service is started anew each day: the journal goes on where it was
    with kb.Agent.open(folder, kb.KFMANB(arms=3), seed=0, arms=ROUTES[:3], minimize=True) as agent:
        assert agent.open_tickets == tuple(sorted(ticket for _, ticket, _ in under_way))
        for hour in (24.0 * day + tick / 4 for tick in range(96)):
            night = 20 <= hour % 24 < 22  # when the tunnel is closed
            ticket = agent.ask(
                available=[route for route in agent.arms if route != "tunnel"] if night else None
            )
            took = minutes(ROUTES.index(ticket.arm), hour)
            under_way.append((hour + took / 60, ticket, took))

            arrived = [(number, took) for when, number, took in under_way if when <= hour]
            under_way = [entry for entry in under_way if entry[0] > hour]
            if random.random() < 0.05 and arrived:
                agent.expire(arrived.pop()[0])  # a parcel that nobody will ever hear of again
                lost += 1
            agent.tell_many(arrived)
            delivered += len(arrived)
        if day == 1:
            agent.add_arm("valley")  # a fourth route is opened …
            agent.retire_arm("bridge")  # … and the first one closed
        if day == 3:
            print(agent.explain())
            why = agent.explain().why

# A reward counts once, also when the sender repeats itself after a restart.
with kb.Agent.open(folder) as agent:
    when, ticket, took = under_way[0]
    agent.tell(ticket, took)
    try:
        agent.tell(ticket, took)
    except kb.errors.RoundError as error:
        print(error)
        repeated = True

assert repeated
assert agent.rounds == delivered + lost + 1 == 4 * 96 - len(under_way) + 1
assert agent.retired == ("bridge",)
assert agent.arms == tuple(ROUTES)
assert agent.memory["pulls"][ROUTES.index("valley")] > 20  # the new route was taken up
assert why[0] == "retired"
print(
    f"{delivered} delivered, {lost} lost, {len(agent.open_tickets)} under way, pulls {agent.memory['pulls']}"
)
