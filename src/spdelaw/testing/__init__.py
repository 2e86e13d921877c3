"""Contracts for domains, engines and dynamics of one's own to inherit; run by pytest."""

from spdelaw.testing._domain_contract import DomainContract
from spdelaw.testing._dynamics_contract import DynamicsContract
from spdelaw.testing._engine_contract import EngineContract

__all__ = ["DomainContract", "DynamicsContract", "EngineContract"]
