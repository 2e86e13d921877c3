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


def test_table_for_pandas():
    law = sl.load(GOLDEN / "schema-1")
    table = law.to_pandas()
    rows = table[table.parameter == "eigenvalue"]
    np.testing.assert_array_equal(rows["mode"], [1, 2])
    np.testing.assert_array_equal(rows["estimate"], law.parameters["eigenvalue"].values[:, 0])
    assert table.loc[table.parameter == "observation_std", "mode"].isna().all()
