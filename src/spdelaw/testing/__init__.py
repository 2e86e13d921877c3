"""Contracts for third-party domains and engines to inherit; needs pytest, hypothesis not."""

from spdelaw.testing._domain_contract import DomainContract
from spdelaw.testing._engine_contract import EngineContract

__all__ = ["DomainContract", "EngineContract"]
