"""Restless bandits whose rewards drift with a hidden linear Gaussian state."""
