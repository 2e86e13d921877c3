"""The chaos and amortized engines work on mode coefficients: two dimensions are as good as one."""

import numpy as np
from tests.infer.recovery import estimates
from tests.parameters import each

import spdelaw as sl

TIMES = np.linspace(0.0, 1.0, 21)
DOMAINS = {"box": (sl.Box((0, np.pi), (0, np.pi)), 8), "sphere": (sl.Sphere(), 6)}
ENGINES = {
    "chaos": {"engine": "chaos", "n_time": 8},
    "amortized": {"engine": "amortized", "preset": "structured"},
    "dropped": {"engine": "chaos", "n_time": 8, "tail": "dropped"},
}


def assert_same(one, two, errors=None, tolerance=0.02):
    """Two maximisers stop within a part of a standard error."""
    for name in ("eigenvalue", "noise_variance"):
        a, b = estimates(one, name), estimates(two, name)
        scale = estimates(errors, name, "stderr") if errors else a
        assert (np.abs(a - b) < tolerance * scale).all()


@each(engine=["chaos", "amortized", "dropped"], name=["box", "sphere"])
def test_the_same_coefficients_give_the_same_law(name, engine):
    """Whatever the modes look like.

    A dropped tail counts as noise at each point: n on a line are as good as n in space.
    """
    heat = sl.catalogue.heat(n_modes=4, nu=0.3, kappa=1.0)
    coefficients = heat.domain.analyse(sl.simulate(heat, 60, TIMES, seed=0), 4)
    name = "box" if engine == "dropped" else name
    domain, n_points = DOMAINS[name]
    laws = [
        sl.fit(d.synthesise(coefficients, grid), d, 4, **ENGINES[engine])
        for d, grid in ((heat.domain, heat.domain.grid(64)), (domain, domain.grid(n_points)))
    ]
    if engine == "dropped":
        assert_same(*laws, tolerance=1e-4)
    else:
        assert_same(*laws, errors=laws[0])
