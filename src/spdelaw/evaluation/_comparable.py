"""Whether log-likelihoods may be compared: they must be densities of the same numbers."""

from __future__ import annotations

from spdelaw.errors import InputError
from spdelaw.law import Law, Numbers


def check_comparable(*laws: Law) -> Numbers:
    """The numbers that the log-likelihoods of all laws are densities of, or `InputError`.

    A density of values and one of coefficients, or densities of different data, differ by more
    than the laws do. Laws that version 0.1 saved do not name their numbers, nor do laws of data
    that were read in passing, or added by `spdelaw.update`.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> from spdelaw.evaluation import check_comparable
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=2), 20, seed=0, observation_std=0.1)
        >>> few, many = (sl.fit(data, sl.Interval(0, np.pi), n) for n in (1, 2))
        >>> check_comparable(few, many).kind
        'values'
    """
    named = [Numbers(**(law.info.log_likelihood_of or {"kind": "", "count": 0})) for law in laws]
    if not named or not all(numbers.fingerprint for numbers in named):
        expected = "laws that name the data their log-likelihood is a density of"
        got = f"{len(named)} laws, one without that name"
        fix = "fit data in memory with this version, or compare law.log_likelihood(data)"
        raise InputError("laws", expected=expected, got=got, fix=fix)
    first, *others = named
    for other in others:
        if other != first:
            expected, got = f"densities of the same numbers: {_words(first)}", _words(other)
            raise InputError("laws", expected=expected, got=got, fix=_fix(first, other))
    return first


def _words(numbers: Numbers) -> str:
    return f"{numbers.count} {numbers.kind} of data {numbers.fingerprint[:12]}"


def _fix(one: Numbers, other: Numbers) -> str:
    if one.fingerprint != other.fingerprint:
        return "fit both to the same data, prepared alike"
    return "fit both with observation_noise='estimate', so that all values have a density"
