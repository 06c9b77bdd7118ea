"""The contract that every policy passes, for your own policies too."""

from kalmanbandits.testing.contract import ContractViolation, check_policy

__all__ = ["ContractViolation", "check_policy"]
