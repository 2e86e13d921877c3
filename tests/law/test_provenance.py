"""Where a law comes from: typed fields that read like the entries of a dict."""

import dataclasses
import json

import pytest
from tests.law.laws import law

from spdelaw.law.provenance import TYPED_FIELDS, Provenance, check_entries

ENTRIES = {
    "engine": "exact",
    "n_paths": 3,
    "log_likelihood": -1.5,
    "seconds": {"maximise": 0.2},
    "warnings": ["a note"],
    "noise_rank": 2,
}


def test_fields_and_entries_are_the_same():
    info = Provenance.of(ENTRIES)
    assert dict(info) == ENTRIES
    assert {**info} == ENTRIES
    assert info == ENTRIES
    assert info.engine == info["engine"] == "exact"
    assert info.extra == {"noise_rank": 2}
    assert info["noise_rank"] == 2
    assert (info.route, info.get("route"), "route" in info) == (None, None, False)
    with pytest.raises(KeyError):
        info["route"]
    assert len(info) == len(list(info)) == len(ENTRIES)
    assert Provenance.of(info) is info
    assert Provenance.of(json.loads(json.dumps(dict(info)))) == info


def test_nothing_is_changed_in_place():
    some = law()
    with pytest.raises(dataclasses.FrozenInstanceError):
        some.info.engine = "chaos"
    other = some.with_info(engine="chaos", n_time=4, flavour="sweet")
    assert (other.info.engine, other.info.n_time, other.info["flavour"]) == ("chaos", 4, "sweet")
    assert some.info.engine == "exact"
    assert "flavour" not in some.info


def test_entries_of_another_type_are_refused():
    check_entries(ENTRIES | {"n_paths": 3, "log_likelihood": 2})
    right = {("converged", True), ("log_likelihood_of", "{'a': [1]}")}
    for name in set(TYPED_FIELDS) - {"identifiability"}:
        for wrong in (True, [{}], {"a": [1]}):
            if (name, wrong if wrong is True else str(wrong)) not in right:
                with pytest.raises(ValueError, match=name):
                    check_entries(ENTRIES | {name: wrong})
    for missing in ("engine", "n_paths", "log_likelihood"):
        with pytest.raises(ValueError, match=missing):
            check_entries({key: value for key, value in ENTRIES.items() if key != missing})


def test_tables_for_notebooks():
    page = law("gaussian", 0.05)._repr_html_()
    assert page.count("<tr>") == 1 + 3
    assert "<script" not in page
    assert "http" not in page
    for text in ("noise variance", "95 % intervals", "boundary=&#x27;dirichlet&#x27;"):
        assert text in page
