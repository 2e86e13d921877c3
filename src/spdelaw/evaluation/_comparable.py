"""Whether log-likelihoods may be compared: they must be densities of the same numbers."""

from __future__ import annotations

from spdelaw.errors import InputError
from spdelaw.law import Law, Numbers


def check_comparable(*laws: Law) -> Numbers:
    """The numbers that the log-likelihoods of all laws are densities of, or `InputError`.

    A density of values and one of coefficients, or densities of different data, differ by more than
    the laws do. Laws that version 0.1 saved do not say what their log-likelihood is a density of.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> from spdelaw.evaluation import check_comparable
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=2), 20, seed=0, observation_std=0.1)
        >>> few, many = (sl.fit(data, sl.Interval(0, np.pi), n) for n in (1, 2))
        >>> check_comparable(few, many).kind
        'values'
    """
    named = [law.info.log_likelihood_of for law in laws]
    if not named or any(entry is None for entry in named):
        raise InputError(
            "laws",
            expected="laws that name what their log-likelihood is a density of",
            got="none" if not named else "one without that entry",
            fix="fit again, or compare law.log_likelihood(data) on the same data",
        )
    first, *others = (Numbers(**entry) for entry in named if entry is not None)
    for other in others:
        if other != first:
            raise InputError(
                "laws",
                expected=f"densities of the same numbers: {_words(first)}",
                got=_words(other),
                fix=_fix(first, other),
            )
    return first


def _words(numbers: Numbers) -> str:
    return f"{numbers.count} {numbers.kind} of data {numbers.fingerprint[:12] or 'without a name'}"


def _fix(one: Numbers, other: Numbers) -> str:
    if one.fingerprint != other.fingerprint:
        return "fit both to the same data, prepared alike"
    return "fit both with observation_noise='estimate', so that all values have a density"
