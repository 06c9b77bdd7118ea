"""The contract that every policy passes, for your own policies too."""

from kalmanbandits.policies.spec import PROMISES
from kalmanbandits.testing.contract import check_policy
from kalmanbandits.testing.violation import ContractViolation

__all__ = ["PROMISES", "ContractViolation", "check_policy"]
