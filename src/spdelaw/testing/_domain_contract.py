"""The contract that every domain keeps: inherit it, return a domain, run pytest.

Example::

    class TestMyDomain(DomainContract):
        n_modes = 12

        def make_domain(self):
            return MyDomain()
"""

from __future__ import annotations

import json
import warnings

import numpy as np
import xarray as xr

from spdelaw.domain import AbstractDomain, from_dict
from spdelaw.errors import AliasingWarning, DomainError


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

    def test_row_without_points_is_nan_and_said(self) -> None:
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
