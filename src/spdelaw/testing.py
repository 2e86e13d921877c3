"""Contracts for domains, engines and dynamics to inherit; run by pytest."""

from __future__ import annotations

import importlib.util
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data.splits import mask
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.interval import Interval
from spdelaw.domains.registry import from_dict
from spdelaw.errors import AliasingWarning, DomainError, EquationError, InputError
from spdelaw.evaluation.scorecard import evaluate
from spdelaw.infer.engines.registry import Engine, engine_names
from spdelaw.infer.objective import LogNormal
from spdelaw.infer.pipeline import fit
from spdelaw.law.io import load
from spdelaw.law.law import Law
from spdelaw.law.parameters import Quantity, parameters_dataset
from spdelaw.law.provenance import Provenance
from spdelaw.processes import catalogue
from spdelaw.processes.forcing import Forcing, Season
from spdelaw.processes.linear import Dynamics, dynamics_from_dict
from spdelaw.processes.paths import simulate
from spdelaw.processes.spde import SpectralSPDE
from spdelaw.processes.specification import InitialState
from spdelaw.report.page import write_report

__all__ = ["DomainContract", "DynamicsContract", "EngineContract", "check_verbs"]

# ---------- What every law does


def check_verbs(law: Law, fields: xr.DataArray) -> None:
    """Run every verb of a law on paths like those it was learned from.

    Density, reconstruction, forecast, draws, scorecard, report, and a file that reads back.
    """
    few, ahead = fields[:2], 2.0 * law.times[-1] - law.times[-2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isfinite(law.log_likelihood(few)).all()
        assert law.reconstruct(few)["mean"].sizes["path"] == 2
        assert np.isfinite(law.forecast(few, [ahead])["std"]).any()
        assert np.isfinite(law.sample(2, seed=0)).any()  # NaN outside a disk
        assert str(evaluate(law, fields))
        json.dumps(dict(law.info))
        with tempfile.TemporaryDirectory() as folder:
            if importlib.util.find_spec("plotly") is not None:
                write_report(Path(folder) / "law.html", law, fields)
                assert "<html" in (Path(folder) / "law.html").read_text(encoding="utf-8")
            law.save(Path(folder) / "a.law")
            again = load(Path(folder) / "a.law")
    xr.testing.assert_identical(again.parameters, law.parameters)
    xr.testing.assert_identical(again.sample(2, seed=0), law.sample(2, seed=0))


# ---------- The contract of domains: inherit it, return a domain, run pytest
#
# Example::
#
#     class TestMyDomain(DomainContract):
#         n_modes = 12
#
#         def make_domain(self):
#             return MyDomain()


class DomainContract:
    """Tests of orthonormality, transforms, gaps, labels, files and bad input."""

    #: Number of modes in most tests.
    n_modes: int = 8
    #: Points of the regular grid in most tests, a dim.
    n_points: int = 101
    #: Absolute tolerance of exact identities between O(1) numbers.
    tolerance: float = 1e-10

    def make_domain(self) -> AbstractDomain:
        """Return the domain under test."""
        raise TypeError("a contract test class returns its domain from make_domain()")

    def scattered_points(self, domain: AbstractDomain, rng: np.random.Generator) -> np.ndarray:
        """Points in no order and at no regular distance: uniform in the box around the grid."""
        x = domain.grid(self.n_points)
        size = (max(3 * self.n_points, 12 * self.n_modes), *x.shape[1:])
        points = x.min(0) + (x.max(0) - x.min(0)) * rng.uniform(size=size)
        return rng.permutation(points[domain.contains(points)])

    def _sample(self, n_rows: int = 5) -> tuple[AbstractDomain, np.ndarray, np.ndarray, np.ndarray]:
        domain = self.make_domain()
        x = domain.grid(self.n_points)
        c = np.random.default_rng(0).normal(size=(n_rows, self.n_modes))
        return domain, x, c, domain.synthesise(c, x)

    def test_eigenvalues_increase_and_nest(self) -> None:
        """``mu_n`` is sorted, non-negative, and the first ones do not depend on how many."""
        domain = self.make_domain()
        mu = domain.eigenvalues(2 * self.n_modes)
        assert mu.shape == (2 * self.n_modes,)
        assert (np.diff(mu) >= 0).all()
        assert mu[0] >= 0
        np.testing.assert_array_equal(mu[: self.n_modes], domain.eigenvalues(self.n_modes))

    def test_eigenfunctions_are_orthonormal(self) -> None:
        """``<h_m, h_n> = delta_mn`` by the domain's own quadrature."""
        domain = self.make_domain()
        x, w = domain.quadrature_for(self.n_modes)
        h = domain.eigenfunctions(x, self.n_modes)
        np.testing.assert_allclose((w[:, None] * h).T @ h, np.eye(self.n_modes), atol=1e-9)
        np.testing.assert_allclose(w.sum(), domain.volume, rtol=1e-9)

    def test_synthesis_then_analysis_is_identity(self) -> None:
        """``analyse(synthesise(c)) = c`` on the regular grid."""
        domain, x, c, u = self._sample()
        np.testing.assert_allclose(domain.analyse(u, self.n_modes, x), c, atol=self.tolerance)

    def test_identity_on_scattered_points(self) -> None:
        """The same on points in no order and at no regular distance."""
        domain, _, c, _ = self._sample()
        scattered = self.scattered_points(domain, np.random.default_rng(1))
        u = domain.synthesise(c, scattered)
        back = domain.analysis(u, scattered, self.n_modes)
        np.testing.assert_allclose(
            back.coefficients, c, atol=self.tolerance * max(1.0, back.condition)
        )

    def test_missing_points_are_no_information(self) -> None:
        """With gaps the coefficients of a field in the span are still exact."""
        domain, x, c, u = self._sample()
        gappy = np.where(np.random.default_rng(2).uniform(size=u.shape) < 0.3, np.nan, u)
        result = domain.analysis(gappy, x, self.n_modes)
        np.testing.assert_allclose(
            result.coefficients, c, atol=self.tolerance * max(1.0, result.condition)
        )

    def test_row_without_points_is_nan_with_a_warning(self) -> None:
        """A row with too few points comes back as NaN with a warning, the others untouched."""
        domain, x, c, u = self._sample()
        u = u.copy()
        u[1] = np.nan
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            back = domain.analyse(u, self.n_modes, x)
        assert any(issubclass(w.category, AliasingWarning) for w in caught)
        assert np.isnan(back[1]).all()
        np.testing.assert_allclose(back[[0, 2, 3, 4]], c[[0, 2, 3, 4]], atol=1e-7)

    def test_fast_equals_dense(self) -> None:
        """Where a fast transform exists it is the dense one to 1e-12."""
        domain, x, c, u = self._sample()
        fast = domain.fast_synthesise(c, x)
        if fast is None:
            return
        np.testing.assert_allclose(fast, domain.synthesise(c, x, method="dense"), atol=1e-12)
        np.testing.assert_allclose(
            domain.analyse(u, self.n_modes, x, method="fast"),
            domain.analyse(u, self.n_modes, x, method="dense"),
            atol=1e-12,
        )

    def test_projection_of_an_eigenfunction(self) -> None:
        """``project(h_n)`` is the n-th unit vector."""
        domain = self.make_domain()

        def third(*x: np.ndarray) -> np.ndarray:
            points = x[0] if len(x) == 1 else np.stack(x, axis=1)
            return domain.eigenfunctions(points, 3)[..., 2]

        got = domain.project(third, self.n_modes)
        np.testing.assert_allclose(got, np.eye(self.n_modes)[2], atol=1e-9)

    def test_turns_pair_modes_of_one_eigenvalue(self) -> None:
        """Pairs are disjoint, and a shift that maps the domain onto itself keeps eigenvalues."""
        domain = self.make_domain()
        turns = domain.turns(self.n_modes) or ()
        members = [n for turn in turns for n in turn[:2]]
        assert len(set(members)) == len(members)
        assert set(members) <= set(range(self.n_modes))
        mu = domain.eigenvalues(self.n_modes)
        for cosine, sine, wavenumber in turns:
            np.testing.assert_allclose(mu[cosine], mu[sine], rtol=1e-12)
            assert wavenumber > 0

    def test_labelled_fields_keep_their_labels(self) -> None:
        """DataArrays go in and come out with named dims, whatever their order."""
        domain, x, c, u = self._sample()
        fields = domain.synthesise(xr.DataArray(c, dims=("path", "mode")), x)
        fields = fields.assign_coords(path=range(5))
        space = fields.dims[1:]
        assert set(domain.dims) <= set(fields.coords)
        np.testing.assert_allclose(domain.places(fields).flatten(fields.values), u, atol=1e-12)
        back = domain.analyse(fields.transpose(*reversed(fields.dims)), self.n_modes)
        assert back.dims == ("path", "mode")
        assert {"method", "condition", "leakage", "outside"} <= set(back.attrs)
        np.testing.assert_allclose(back.values, c, atol=self.tolerance)
        again = domain.synthesise(back, x)
        assert again.dims == ("path", *space)
        np.testing.assert_allclose(again.values, fields.values, atol=1e-8)

    def test_flat_and_labelled_points_are_the_same(self) -> None:
        """Points know the labels that fields have on them, and fields know their points."""
        domain, x, _, u = self._sample()
        places = domain.places(x)
        np.testing.assert_array_equal(places.points, x)
        np.testing.assert_array_equal(places.flatten(places.unflatten(u)), u)
        labelled = xr.DataArray(places.unflatten(u), places.coords, ["path", *places.dims])
        flat = domain.flatten(labelled)
        assert flat.dims[0] == "path"
        assert flat.ndim == 2
        np.testing.assert_array_equal(flat.values, u)
        np.testing.assert_array_equal(domain.places(flat).points, x)

    def test_a_law_on_it_does_what_laws_do(self) -> None:
        """A law is learned from a few paths on the domain, and every verb of it runs."""
        domain = self.make_domain()
        n, points = min(3, self.n_modes), domain.grid(min(self.n_points, 17))
        rates = 1.0 + domain.eigenvalues(n) / max(float(domain.eigenvalues(n)[-1]), 1e-300)
        equation = SpectralSPDE(domain, n, rates, noise=np.ones(n), initial="stationary")
        fields = simulate(equation, 8, np.linspace(0.0, 2.0, 9), points, seed=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            law = fit(fields, domain, n, mean="zero")
        check_verbs(law, fields)

    def test_survives_json(self) -> None:
        """``from_dict(to_dict)`` through JSON gives an equal domain."""
        domain = self.make_domain()
        assert from_dict(json.loads(json.dumps(domain.to_dict()))) == domain

    def test_bad_input_is_refused(self) -> None:
        """Each wrong argument gives one `DomainError`."""
        domain = self.make_domain()
        x = domain.grid(11)
        n = len(x)
        for bad_call in (
            lambda: domain.eigenvalues(0),
            lambda: domain.eigenvalues(2.5),  # type: ignore[arg-type]
            lambda: domain.analyse(np.zeros(n), n + 1, x),
            lambda: domain.analyse(np.zeros(n - 1), 2, x),
            lambda: domain.analyse(np.zeros(n), 2),
            lambda: domain.analyse(np.full(n, np.inf), 2, x),
            lambda: domain.analyse(np.zeros(n, complex), 2, x),
            lambda: domain.synthesise(np.zeros(3), np.full_like(x[:1], np.nan)),
            lambda: domain.synthesise(np.zeros(3), np.zeros((2, 2, 2))),
            lambda: domain.synthesise(np.zeros(3), x, method="magic"),
            lambda: domain.analyse(xr.DataArray(np.zeros(n), dims="elsewhere"), 2),
        ):
            try:
                bad_call()
            except DomainError as error:
                assert "expected" in str(error)
                assert "Fix:" in str(error)
            else:
                raise AssertionError("bad input was accepted")


# ---------- The contract of dynamics: inherit it, return dynamics, run pytest
#
# Example::
#
#     class TestMyDynamics(DynamicsContract):
#         def make_dynamics(self):
#             return MyDynamics(rate=[1.0, 4.0], noise=[1.0, 0.5])


Array = np.ndarray
#: Standard errors that a Monte Carlo mean may be off; a normal one is, once in 10,000,000 numbers.
ALLOWED = 5.5


class DynamicsContract:
    """Tests of what a `spdelaw.Law` requires of its dynamics."""

    #: A step to take: when, and how long.
    start: float = 0.3
    step: float = 0.1
    #: Draws of a step that are compared with its moments.
    n_draws: int = 4000
    #: Width of the state before the step; small where moments hold to first order only.
    spread: float = 0.2
    #: Relative error that the moments of a closure may have in addition to the error of the draws.
    closure_error: float = 0.0
    #: Whether laws of it and ``spdelaw.fit(..., dynamics=)`` are tested; built-in dynamics have
    #: engines and tables of parameters of their own.
    is_fitted: bool = True

    def make_dynamics(self) -> Dynamics:
        """Return the dynamics under test."""
        raise TypeError("a contract test class returns its dynamics from make_dynamics()")

    def _state(self) -> tuple[Dynamics, Array, Array]:
        """Dynamics, and a mean and covariance without any symmetry."""
        dynamics = self.make_dynamics()
        n, rng = dynamics.n_modes, np.random.default_rng(0)
        root = self.spread * (np.eye(n) + 0.3 * np.tril(rng.standard_normal((n, n)), -1))
        return dynamics, rng.uniform(0.2, 0.8, n), root @ root.T

    def test_it_is_found_by_its_name(self) -> None:
        """Files of laws name their dynamics."""
        dynamics = self.make_dynamics()
        assert Dynamics.registry[dynamics.name] is type(dynamics)

    def test_moments_are_those_of_its_draws(self) -> None:
        """Null: draws of ``sample`` have the mean, covariance and cross-covariance of the step."""
        dynamics, mean, covariance = self._state()
        rng = np.random.default_rng(1)
        before = rng.multivariate_normal(mean, covariance, self.n_draws)
        after = dynamics.sample(before, self.start, self.step, rng)
        step = dynamics.moments(mean, covariance, self.start, self.step)
        assert after.shape == before.shape
        self._compare(after, step.mean)
        self._compare(_products(after - step.mean, after - step.mean), step.covariance)
        self._compare(_products(before - mean, after - step.mean), step.cross)

    def _compare(self, draws: Array, expected: Array) -> None:
        error = draws.std(0) / np.sqrt(len(draws))
        limit = ALLOWED * error + self.closure_error * np.abs(expected)
        np.testing.assert_array_less(np.abs(draws.mean(0) - expected), limit + 1e-12)

    def test_no_time_changes_nothing(self) -> None:
        """A step that is very short leaves mean, covariance and cross-covariance as they are."""
        dynamics, mean, covariance = self._state()
        step = dynamics.moments(mean, covariance, self.start, 1e-9)
        np.testing.assert_allclose(step.mean, mean, atol=1e-6)
        for moment in (step.covariance, step.cross):
            np.testing.assert_allclose(moment, covariance, atol=1e-6)

    def test_pull_back_is_the_derivative(self) -> None:
        """Gradients by the mean and the covariance, where there are any, are differences."""
        dynamics, mean, covariance = self._state()
        rng, n = np.random.default_rng(2), dynamics.n_modes
        by = (rng.standard_normal(n), *rng.standard_normal((2, n, n)))
        pull_back = dynamics.moments(mean, covariance, self.start, self.step).pull_back
        if pull_back is None:
            return
        by_mean, by_covariance, _ = pull_back(*by)
        direction = rng.standard_normal(n)
        tilt = np.outer(direction, direction)

        def objective(shift: float, widen: float) -> float:
            step = dynamics.moments(
                mean + shift * direction, covariance + widen * tilt, self.start, self.step
            )
            return float(sum((g * x).sum() for g, x in zip(by, step[:3], strict=True)))

        h = 1e-5
        slope = (objective(h, 0.0) - objective(-h, 0.0)) / (2.0 * h)
        np.testing.assert_allclose(by_mean @ direction, slope, rtol=1e-5, atol=1e-7)
        slope = (objective(0.0, h) - objective(0.0, -h)) / (2.0 * h)
        np.testing.assert_allclose((by_covariance * tilt).sum(), slope, rtol=1e-5, atol=1e-7)

    def test_a_description_gives_it_back(self) -> None:
        """``to_dict`` and ``from_dict`` keep every number."""
        dynamics, mean, covariance = self._state()
        again = dynamics_from_dict(dynamics.name, _plain(dynamics.to_dict()))
        for name, value in dynamics.parameters.items():
            np.testing.assert_array_equal(again.parameters[name], value)
        one, two = (d.moments(mean, covariance, self.start, self.step) for d in (dynamics, again))
        np.testing.assert_array_equal(one.mean, two.mean)

    def test_its_first_modes(self) -> None:
        """``leading(n)`` has n modes, or is refused."""
        dynamics = self.make_dynamics()
        assert dynamics.leading(dynamics.n_modes).n_modes == dynamics.n_modes
        try:
            assert dynamics.leading(1).n_modes == 1
        except EquationError as error:
            assert "Fix:" in str(error)

    def test_many_states_move_as_each_alone(self) -> None:
        """``moments`` of states with leading axes are those of each state."""
        dynamics, mean, covariance = self._state()
        means = mean * np.linspace(0.5, 1.5, dynamics.n_modes + 1)[:, None]
        spreads = np.tile(covariance, (len(means), 1, 1))
        together = dynamics.moments(means, spreads, self.start, self.step)
        for k, state in enumerate(means):
            alone = dynamics.moments(state, covariance, self.start, self.step)
            for one, many in zip(alone[:3], together[:3], strict=True):
                np.testing.assert_allclose(many[k], one, rtol=1e-8, atol=1e-12)

    def _law(self) -> Law:
        """Law of these dynamics on an interval, with gaussian first states."""
        dynamics = self.make_dynamics()
        domain = Interval(0.0, np.pi)
        numbers = {
            name: Quantity(np.asarray(x, float), np.zeros(np.shape(x)), name in dynamics.positive)
            for name, x in dynamics.parameters.items()
        } | {"observation_std": Quantity(np.array(0.01), np.array(0.0), True)}
        n = dynamics.n_modes
        initial = InitialState("gaussian", np.zeros(n), np.full(n, self.spread**2))
        return Law(
            domain, n, parameters_dataset(numbers, 0.95, {}), dynamics, initial,
            np.array(1e-4), self.start + self.step * np.arange(12), domain.grid(4 * n + 1),
            info=Provenance(engine="by hand"),
        )  # fmt: skip

    def test_a_law_of_it_does_what_laws_do(self) -> None:
        """A law made by hand of these dynamics has every verb."""
        if not self.is_fitted:
            return
        law = self._law()
        check_verbs(law, law.sample(6, seed=0, observation_noise=True))

    def test_it_can_be_fitted(self) -> None:
        """Through gaps and noise, with intervals for its parameters; the law has every verb."""
        if not self.is_fitted:
            return
        law, dynamics = self._law(), self.make_dynamics()
        fields = law.sample(12, seed=0, observation_noise=True)
        fields = mask(fields, "random", 0.2, seed=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learned = fit(fields, law.domain, dynamics=dynamics)
        for name in dynamics.parameters:
            assert np.isfinite(learned.parameters[name].sel(statistic="estimate")).all()
        check_verbs(learned, fields)


def _products(a: Array, b: Array) -> Array:
    return np.asarray(a[:, :, None] * b[:, None, :])


def _plain(value: Any) -> Any:
    """Copies, so that nothing is shared with what was described."""
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    return np.array(value) if isinstance(value, np.ndarray) else value


# ---------- The contract of engines: inherit it, return an engine, run pytest
#
# Example::
#
#     class TestMyEngine(EngineContract):
#         def make_engine(self):
#             return MyEngine()


#: A value other than the default for every setting of a model.
STATED = {
    "drift": "parametric",
    "noise": "parametric",
    "noise_rank": 2,
    "initial": "gaussian",
    "observation_noise": "estimate",
    "nuisance": 0,
    "fixed": {"eigenvalue[1]": 1.0},
    "priors": {"eigenvalue": LogNormal(2.0, 1.0)},
    "forcing": Forcing([0.0, 2.0], np.zeros((2, 1))),
    "season": Season(0.5, 2),
}


class EngineContract:
    """Tests of what `spdelaw.fit` and the shell rely on, on a few paths of a heat equation."""

    #: Paths of the data, and the requested modes.
    n_paths: int = 20
    n_modes: int = 2
    #: Observation noise of the data; 0.0 for engines that know none.
    observation_std: float = 0.05
    #: Factor by which the slowest eigenvalue may be off; None where a test run is too short.
    within: float | None = 3.0

    def make_engine(self) -> Engine:
        """Return the engine under test."""
        raise TypeError("a contract test class returns its engine from make_engine()")

    def _truth(self) -> SpectralSPDE:
        return catalogue.heat(n_modes=self.n_modes)

    def _fields(self) -> xr.DataArray:
        e = self._truth()
        times, points = np.linspace(0.0, 1.0, 21), e.domain.grid(9)
        return simulate(
            e, self.n_paths, times, points, seed=0, observation_std=self.observation_std
        )

    def _fit(self, fields: Any, **words: Any) -> Law:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fit(
                fields, self._truth().domain, self.n_modes, engine=self.make_engine(), **words
            )

    def test_it_is_found_by_its_name(self) -> None:
        """The registry, and with it the shell, knows it."""
        engine = self.make_engine()
        assert engine.name in engine_names()

    def test_it_learns_a_law(self) -> None:
        """Modes, table and provenance are complete, and the slowest mode is about right."""
        law, truth = self._fit(self._fields()), self._truth()
        assert (law.n_modes, law.domain) == (self.n_modes, truth.domain)
        assert law.info["engine"] == self.make_engine().name
        assert law.info["n_paths"] >= 1
        assert np.isfinite(law.info["log_likelihood"])
        assert {"kind", "count"} <= set(law.info["log_likelihood_of"])
        for table in law.parameters.data_vars.values():
            assert np.isfinite(table.sel(statistic="estimate")).all()
        rate = float(law.parameters["eigenvalue"].sel(statistic="estimate", mode=1))
        if self.within is not None:
            assert 1.0 / self.within < rate / truth.eigenvalues[0] < self.within

    def test_the_same_seed_gives_the_same_law(self) -> None:
        """All draws come from the seed, and the data do not change."""
        fields = self._fields()
        before = fields.copy(deep=True)
        first, second = (self._fit(fields, seed=3) for _ in range(2))
        xr.testing.assert_identical(first.parameters, second.parameters)
        xr.testing.assert_identical(fields, before)

    def test_the_level_reaches_the_intervals(self) -> None:
        """The table stores its level."""
        assert self._fit(self._fields(), level=0.5).parameters.attrs["interval_level"] == 0.5

    def test_the_law_does_what_laws_do(self) -> None:
        """Every verb of the law runs."""
        fields = self._fields()
        check_verbs(self._fit(fields), fields)

    def test_words_it_does_not_honour_are_refused_before_any_work(self) -> None:
        """An engine ignores no setting of the model."""
        for word in set(STATED) - self.make_engine().supports:
            try:
                self._fit(None, **{word: STATED[word]})
            except InputError as error:
                assert error.what == word
                assert "Fix:" in str(error)
            else:
                raise AssertionError(f"{word} was neither used nor refused")
