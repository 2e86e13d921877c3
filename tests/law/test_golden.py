"""Laws that version 0.1 saved stay loadable, with the same numbers."""

from pathlib import Path

import numpy as np
import pytest

import spdelaw as sl

GOLDEN = Path(__file__).with_name("golden")


@pytest.mark.parametrize("name", ["schema-1", "schema-2"])
def test_golden_law_loads_and_works(name):
    law = sl.load(GOLDEN / name)
    stored = np.loadtxt(GOLDEN / f"{name}.txt")
    np.testing.assert_array_equal(law.parameters["eigenvalue"].values[:, 0], stored[0])
    new = law.sample(2, seed=0)
    np.testing.assert_allclose(new.values[0, -1, :2], stored[1], rtol=1e-9)
    assert law.preparation is None or name == "schema-2"


@pytest.mark.parametrize("part", ["coupled", "season", "forcing"])
def test_golden_law_with_matrices_a_season_or_a_forcing(part, tmp_path):
    """Two values of a sample, two deviations of its reconstruction, two means of its forecast."""
    law = sl.load(GOLDEN / f"schema-1-{part}")
    stored = np.loadtxt(GOLDEN / f"schema-1-{part}.txt")
    law.save(tmp_path / "again.law")
    for some in (law, sl.load(tmp_path / "again.law")):
        new = some.sample(2, seed=0)
        late = some.times[-1] + (0.1 if part != "forcing" else -0.01)
        smooth, ahead = some.reconstruct(new)["std_field"], some.forecast(new, [late])["mean"]
        values = [*new.values[0, -1, :2], *smooth.values[0, 1:3, 1], *ahead.values[0, 0, :2]]
        np.testing.assert_allclose(values, stored, rtol=1e-9, atol=1e-12)
    assert (law.forcing is not None) == (part == "forcing")
    assert (law.linear.season is not None) == (part == "season")


def test_a_golden_law_of_coupled_modes_can_be_updated():
    law = sl.load(GOLDEN / "schema-1-coupled")
    more = sl.simulate(law.equation, 40, law.times, law.points, seed=1)
    drift = sl.update(law, more).parameters["drift"]
    assert (drift.sel(statistic="stderr") < law.parameters["drift"].sel(statistic="stderr")).all()


def test_tables_for_pandas():
    law = sl.load(GOLDEN / "schema-1")
    table = law.to_pandas()
    rows = table[table.parameter == "eigenvalue"]
    np.testing.assert_array_equal(rows["mode"], [1, 2])
    np.testing.assert_array_equal(rows["estimate"], law.parameters["eigenvalue"].values[:, 0])
    assert table.loc[table.parameter == "observation_std", "mode"].isna().all()
    law = sl.load(GOLDEN / "schema-1-coupled")
    table = law.to_pandas().set_index(["parameter", "mode", "mode_2"])
    entry = law.parameters["drift"].sel(mode=2, mode_2=3, statistic="estimate")
    assert table.loc[("drift", 2, 3), "estimate"] == float(entry)
