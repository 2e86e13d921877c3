"""Cut the small data sets of `spdelaw.datasets` out of public files.

    python -m benchmarks.make_datasets FOLDER

needs ``ersstv5-2010-2020.nc`` (NOAA ERSST v5, monthly means) and ``noaa-tmax-1990-1993.csv.gz``
(daily maximum temperature of stations: station, lon, lat, date, tmax) in the folder.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from spdelaw.data.io.safe_files import replace_file

TARGET = Path(__file__).resolve().parents[1] / "src" / "spdelaw" / "datasets"
PACIFIC = {"lat": slice(30, -30), "lon": slice(120, 290)}
#: Stations, evenly by number, and the last day.
STATIONS, UNTIL = 36, "1991-12-31"


def main(arguments: list[str]) -> int:
    """Both files."""
    folder = Path(arguments[0])
    for target in (pacific(folder), stations(folder)):
        print(f"{target.name}: {target.stat().st_size // 1024} kB")
    return 0


def pacific(folder: Path) -> Path:
    """Means of blocks of 2 x 2 cells in the tropical Pacific; a block is sea if any cell is."""
    with xr.open_dataset(folder / "ersstv5-2010-2020.nc") as raw:
        sst = raw["sst"].sel(PACIFIC).coarsen(lat=2, lon=2, boundary="trim").mean().load()
    out = sst.astype("float32").to_dataset(name="sst")
    out["sst"].attrs = {"long_name": "sea-surface temperature, monthly mean", "units": "degC",
                        "standard_name": "sea_surface_temperature"}  # fmt: skip
    out["lat"].attrs = {"units": "degrees_north", "standard_name": "latitude"}
    out["lon"].attrs = {"units": "degrees_east", "standard_name": "longitude"}
    out["time"].attrs = {"standard_name": "time"}
    out.attrs = {
        "title": "Sea-surface temperature of the tropical Pacific, January 2010 to August 2020",
        "source": "NOAA Extended Reconstructed SST v5, 2 x 2 cells of 2 degrees averaged",
        "licence": "No constraints on data access or use",
    }
    packed = {"dtype": "int16", "scale_factor": 0.01, "_FillValue": -32768, "zlib": True,
              "complevel": 9, "fletcher32": True}  # fmt: skip
    target = TARGET / "pacific_sst.nc"
    with replace_file(target) as new:
        out.to_netcdf(new, engine="h5netcdf", encoding={"sst": packed})
    return target


def stations(folder: Path) -> Path:
    """Some stations, two years."""
    rows = pd.read_csv(folder / "noaa-tmax-1990-1993.csv.gz")
    names = np.sort(rows["station"].unique())
    kept = names[np.linspace(0, len(names) - 1, STATIONS).round().astype(int)]
    rows = rows[rows["station"].isin(kept) & (rows["date"] <= UNTIL)]
    rows = rows.sort_values(["station", "date"]).round({"tmax": 1})
    target = TARGET / "station_tmax.csv.gz"
    with replace_file(target) as new, new.open("wb") as file:
        file.write(gzip.compress(rows.to_csv(index=False).encode("utf-8"), 9, mtime=0))
    return target


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
