"""Finding the system behind rewards: one core for a bandit's history and for whole tables."""
