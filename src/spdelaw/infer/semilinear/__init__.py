"""Estimation of semilinear laws: the terms beyond the linear drift."""
