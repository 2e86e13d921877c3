"""The contract that every engine keeps: inherit it, return an engine, run pytest.

Example::

    class TestMyEngine(EngineContract):
        def make_engine(self):
            return MyEngine()
"""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.equation import Forcing, Season, SpectralSPDE, catalogue
from spdelaw.errors import InputError
from spdelaw.infer import Engine, LogNormal, engine_names, fit
from spdelaw.law import Law, load
from spdelaw.simulation import simulate

#: A value other than the default for every word of a model.
SAID = {
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

    #: Paths of the data, and the modes that are asked for.
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
        """Whatever is drawn is drawn from the seed, and the data stay as they were."""
        fields = self._fields()
        before = fields.copy(deep=True)
        first, second = (self._fit(fields, seed=3) for _ in range(2))
        xr.testing.assert_identical(first.parameters, second.parameters)
        xr.testing.assert_identical(fields, before)

    def test_the_level_reaches_the_intervals(self) -> None:
        """The table says its level."""
        assert self._fit(self._fields(), level=0.5).parameters.attrs["interval_level"] == 0.5

    def test_the_law_does_what_laws_do(self) -> None:
        """It samples, reconstructs, forecasts and survives a file; its record is plain JSON."""
        fields = self._fields()
        law = self._fit(fields)
        json.dumps(dict(law.info))
        with tempfile.TemporaryDirectory() as folder:
            law.save(Path(folder) / "a.law")
            back = load(Path(folder) / "a.law")
        xr.testing.assert_identical(back.parameters, law.parameters)
        xr.testing.assert_identical(back.sample(2, seed=0), law.sample(2, seed=0))
        assert law.reconstruct(fields[:2])["mean"].sizes["path"] == 2
        assert np.isfinite(law.forecast(fields[:2], [1.1])["std"]).all()

    def test_words_it_does_not_honour_are_refused_before_any_work(self) -> None:
        """Nothing that is said about the model is ignored."""
        for word in set(SAID) - self.make_engine().honours:
            try:
                self._fit(None, **{word: SAID[word]})
            except InputError as error:
                assert error.what == word
                assert "Fix:" in str(error)
            else:
                raise AssertionError(f"{word} was neither honoured nor refused")
