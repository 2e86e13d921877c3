"""The door to `Observed`: data made canonical, prepared and flattened once, and checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data._blocks import Here, Place
from spdelaw.data._clock import has_dates
from spdelaw.data._contract import check_values, unchecked_fields
from spdelaw.data._observed import Observed
from spdelaw.data._prepare import Preparation, Prepared, learn_map
from spdelaw.data._reading import read_values
from spdelaw.data._suspect import check_plausible
from spdelaw.data._value_noise import OBSERVATION_STD, value_noise
from spdelaw.domain import AbstractDomain
from spdelaw.errors import DataError, DomainError, InputError

#: Keywords about data that a fit hands to `spdelaw.as_fields`.
ADAPTER = ("times", "points", "variable", "time_unit")


def observe(
    data: Any,
    domain: AbstractDomain,
    prepare: Preparation | Prepared | None = None,
    *,
    place: Place | None = None,
    named: bool = False,
    **adapter: Any,
) -> Observed:
    """Data of a domain, canonical and prepared, or `DataError`.

    Args:
        data: whatever `spdelaw.as_fields` takes, raw data with ``prepare``, or `Observed`.
        domain: where the fields live.
        prepare: how to prepare them, or what a preparation has learned already.
        place: where lazy values are worked on; they are looked at by a later pass.
        named: whether the look at values in memory should also tell which data they are.
        adapter: of `ADAPTER`, beside data that are not prepared.
    """
    if isinstance(data, Observed):
        return _again(data, domain, prepare, adapter)
    check_adapter(adapter, "" if prepare is None else "prepare")
    dims, dated = domain.dims, has_dates(adapter.get("times", data))
    if prepare is None:
        labelled = unchecked_fields(data, dims=dims, **adapter)
        if labelled.chunks is None and not named:
            check_values(labelled)
        own = observed_fields(labelled, domain, place=place, dated=dated)
        return _read(own, labelled) if labelled.chunks is None and named else own
    if isinstance(prepare, Prepared):
        labelled, prepared = prepare.apply(data, dims), prepare
    else:
        prepared, labelled = prepare.learned(data, dims)
    return observed_fields(labelled, domain, prepared, place=place, dated=dated)


def _read(observed: Observed, labelled: xr.DataArray) -> Observed:
    """The same, its values read: `DataError` where the labelled fields break the contract."""
    found = read_values([observed.fields.values])
    if not found.is_data or observed.has_own_clocks or observed.fields.size < labelled.size:
        check_values(labelled)
    return observed._replace(reading=found)


def observed_fields(
    labelled: xr.DataArray,
    domain: AbstractDomain,
    prepared: Prepared | None = None,
    *,
    place: Place | None = None,
    dated: bool = False,
) -> Observed:
    """Fields that are canonical, checked and prepared already, on a domain."""
    if OBSERVATION_STD in labelled.coords:
        labelled = labelled.compute()
    places, noise = domain.places(labelled), value_noise(labelled)
    fields, none = domain.flatten(labelled, places), np.zeros(0)
    if noise is not None:
        std = domain.flatten(noise, places).values
        fields = fields.assign_coords({OBSERVATION_STD: (fields.dims, std)})
    own = Observed(none, none, places, fields, domain, place or Here(), None, None, prepared, dated)
    return own.holding(fields)


def check_adapter(adapter: dict[str, Any], beside: str = "") -> None:
    """Refuse words that are not about data, and any beside what leaves no choice."""
    unknown = sorted(set(adapter) - set(ADAPTER))
    if unknown:
        expected = f"a word of the fit, or one of {ADAPTER} for the data"
        fix = "see help(spdelaw.fit) for the words"
        raise InputError("keyword", expected=expected, got=repr(unknown[0]), fix=fix)
    if adapter and beside:
        expected = f"none for the data beside {beside}"
        fix = "bring the data into shape first: sl.as_fields(data, ...)"
        raise InputError("keyword", expected=expected, got=repr(next(iter(adapter))), fix=fix)


def _again(
    data: Observed, domain: AbstractDomain, prepare: Any, adapter: dict[str, Any]
) -> Observed:
    """Data that were observed before, on another domain or prepared now where that is asked."""
    check_adapter(adapter, "observed data")
    if data.domain.dims != domain.dims:
        fix = "observe the data anew: spdelaw.data.observe(data, domain)"
        raise DomainError("data", expected=f"data on {domain}", got=str(data.domain), fix=fix)
    prepared = data.prepared
    if prepare is None or (prepared is not None and prepared.is_by(prepare)):
        if data.domain == domain:
            return data
        return _like(data, data.labelled, domain, prepared)
    wanted = prepare.how if isinstance(prepare, Prepared) else prepare
    if prepared is not None or wanted.reduces:
        expected, fix = "raw data, or data prepared in this way", "pass the raw data"
        got = "data that were prepared otherwise" if prepared else "data that were not reduced"
        raise InputError("data", expected=expected, got=got, fix=fix)
    labelled = data.labelled
    if isinstance(prepare, Preparation):
        prepare = learn_map(prepare, labelled, domain.dims)
    labelled = prepare.transform(prepare.align(labelled), domain.dims)
    return _like(data, labelled, domain, prepare)


def _like(data: Observed, labelled: xr.DataArray, domain: Any, prepared: Any) -> Observed:
    return observed_fields(labelled, domain, prepared, place=data.place, dated=data.dated)


def check_times(observed: Observed) -> Observed:
    """The data, or `DataError` where nothing can change."""
    if observed.fields.sizes["time"] < 2:
        fix = "a law is learned from change; observe the field more than once"
        got = str(observed.fields.sizes["time"])
        raise DataError("time", expected="at least two times", got=got, fix=fix)
    return observed


def check_not_filled(observed: Observed) -> None:
    """Refuse undeclared fills, of data in memory that no preparation has looked at."""
    if observed.prepared is None and not observed.is_lazy:
        check_plausible(observed.fields, observed.reading)
