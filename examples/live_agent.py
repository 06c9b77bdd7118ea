"""An agent in a service: choose, learn, say why, survive a restart.

python examples/live_agent.py
"""

import math
import tempfile
from pathlib import Path

import kalmanbandits as kb


def serve(server: int, second: int) -> float:
    """Requests per second that a server handles: each has its own slow rhythm of load."""
    return 100 + 30 * math.sin(second / 9 + 2.1 * server) + 5 * math.sin(17.0 * second + server)


USUAL = 100.0  # UBSS has no intercept: hand it what differs from the usual level

agent = kb.Agent(kb.UBSS(arms=3, window=2), seed=7)
path = Path(tempfile.mkdtemp()) / "agent.kb"

handled, second = 0.0, 0
for second in range(2000):
    server = agent.select()
    requests = serve(server, second)
    agent.update(server, requests - USUAL)
    handled += requests
    if second == 1000:  # the service restarts; the agent goes on exactly where it was
        agent.save(path)
        agent = kb.Agent.load(path)

print(agent.explain())
print(f"requests per second: {handled / 2000:.1f}; a fixed server handles about 100, the best one about 125")
assert handled / 2000 > 115
assert agent.rounds == 2000
