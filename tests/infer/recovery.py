"""How far an estimate is from the truth."""

import numpy as np

import spdelaw as sl

#: Each estimate within this many standard errors; a true null fails once in 16 000 numbers.
WITHIN = 4.0


def estimates(law: sl.Law, name: str, statistic: str = "estimate") -> np.ndarray:
    return law.parameters[name].sel(statistic=statistic).values


def z_scores(law: sl.Law, **truth: np.ndarray) -> np.ndarray:
    """(estimate - truth) / standard error of all named parameters."""
    return np.concatenate(
        [
            np.ravel((estimates(law, name) - np.asarray(x)) / estimates(law, name, "stderr"))
            for name, x in truth.items()
        ]
    )


def assert_recovers(law: sl.Law, equation: sl.SpectralSPDE, **more: np.ndarray) -> None:
    """Both spectra within `WITHIN` standard errors, and not by huge standard errors."""
    n = law.n_modes
    z = z_scores(
        law, eigenvalue=equation.eigenvalues[:n], noise_variance=equation.noise_variance[:n], **more
    )
    assert np.abs(z).max() < WITHIN, np.round(z, 2)
    # Standard errors that are too large would make this easy: together they must be lively.
    assert np.sqrt((z**2).mean()) > 0.3, np.round(z, 2)


def same_law(one: sl.Law, two: sl.Law, tolerance: float = 1e-9) -> None:
    """Estimates to rounding, relative to their size or standard error."""
    assert one.info["route"] == two.info["route"]
    assert set(one.parameters) == set(two.parameters)
    for name in one.parameters:
        size = np.abs(estimates(one, name)).max() + estimates(one, name, "stderr")
        gap = np.abs(estimates(one, name) - estimates(two, name))
        assert (gap <= tolerance * size).all(), (name, gap / size)
