"""Helpers for the tests of third-party domains; needs pytest, hypothesis not."""

from spdelaw.testing._domain_contract import DomainContract

__all__ = ["DomainContract"]
