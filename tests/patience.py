"""How long tests wait for what must come: only what hangs is late, however busy the machine is."""

PATIENCE = 900  # seconds on the clock; on an idle machine nothing that is waited for takes ten
