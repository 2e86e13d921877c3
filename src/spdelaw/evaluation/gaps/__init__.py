"""Filling of gaps."""
