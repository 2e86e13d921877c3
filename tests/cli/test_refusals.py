"""Bad input: one line that says what to change, before any work, and nothing is left behind."""

import os

import pytest

COLUMNS = "--time date --value tmax --station id --lon lon --lat lat"
REFUSED = {
    "simulate": [
        ("heta", "did you mean heat?"),
        ("schroedinger", "expected one of heat"),
        ("heat --paths 0", "--paths: expected a positive integer, got 0"),
        ("heat --modes 0", "--modes"),
        ("heat --steps 0", "--steps"),
        ("heat --final-time -1", "--final-time"),
        ("heat --times 0,a", "--times"),
        ("heat --times 0,1 --steps 5", "got both"),
        ("heat --scheme euler", "exact"),
        ("heat --paths 1000000000000", "GB"),
        ("heat --out x.xlsx", "ends in .nc or .zarr"),
        ("heat --out x", "pass --out x.nc"),
        ("heat --out nowhere/x.nc", "mkdir -p 'nowhere'"),
        ("heat --out a/x.nc", "existing folder"),
        ("heat --out complete.nc", "--force"),
        ("heat --force --out folder.nc", "did not write"),
    ],
    "fit complete.nc": [
        ("--domain torus", "one of interval, line"),
        ("--domain line --bounds 0 1", "--domain interval"),
        ("--boundary open", "--boundary"),
        ("--bounds 1 0", "a < b"),
        ("--modes many", "--modes: expected auto or an integer"),
        ("--modes 0", "--modes"),
        ("--observation-noise some", "--observation-noise"),
        ("--initial random", "--initial"),
        ("--drift full", "--drift"),
        ("--noise full", "--noise"),
        ("--nuisance=-1", "--nuisance"),
        ("--variable wind", "wind"),
        ("--mean steady", "--mean"),
        ("--engine-option a", "name=value"),
        ("--out x.nc", "pass --out x.law"),
        ("--out nowhere/x.law", "mkdir -p"),
        ("--out m1.law", "--force"),
        ("--dask many", "--dask"),
        ("--dask local:0", "--dask"),
    ],
    "fit": [
        ("a.law", "a.law: expected a file of data, got a law"),
        ("globe.nc --domain sphre", "did you mean sphere?"),
        ("complete.nc --mean constantt", "did you mean constant?"),
        ("none.nc", "none.nc: expected a file, got none of this name"),
        ("sst.nc --anomalies monthly", "did you mean month?"),
        ("sst.nc --config pipe.json", "--config: expected a regular YAML file, got a pipe"),
        ("missing.nc --domain interval", ""),
        ("plain.nc --domain interval --boundary periodic", "--bounds"),
        ("square.nc --domain box --bounds 0 1", "pass --domain interval"),
        ("square.nc --domain box --radius 1", "pass --domain disk"),
        ("square.nc --domain box --sides 0,1,2", "4 numbers, two per dim"),
        ("square.nc --domain box --boundary periodic", "--sides"),
        ("square.nc --domain box --boundary neumann,neumann,neumann", "one word, or 2"),
        ("square.nc --domain disk", "--radius"),
        ("square.nc --domain disk --radius=-1", "--radius"),
        ("square.nc --domain sphere", "lat"),
        ("square.nc --domain interval", "dim 'y'"),
        ("square.nc --domain mesh", "one of interval, line, box"),
        ("square.nc --domain none.json", "a file of json.dumps"),
        ("sensors.nc --domain box --sides 0,1,0,1 --modes 2", "number 2 at x 4, y 0.5"),
        ("two.nc", "--variable"),
        ("wide.nc --domain interval", "--select lat=-2:2"),
        ("wide.nc --select lat", "--select"),
        ("wide.nc --select time=1990:1991", "a period within"),
        ("wide.nc --coarsen x=two", "--coarsen"),
        ("wide.nc --along depth", "along"),
        ("globe.nc --domain box --along longitude", "remove --along"),
        ("tmin.csv", "--time date --value tmin --station id --lon lon --lat lat"),
        (f"empty.csv {COLUMNS}", "line of column names"),
        (f"gone.csv {COLUMNS}", "known value"),
        (f"contradict.csv {COLUMNS}", "contradict"),
        (f"one.csv {COLUMNS}", "points that differ"),
        (f"fill.csv {COLUMNS}", "--missing -9999"),
        ("sst.nc --config none.yaml", "--config"),
    ],
    "info": [
        *((f"{name}.nc", "") for name in ("truncated", "missing", "text", "empty", "folder")),
        ("none.nc", "none of this name"),
        ("a.unknown", ""),
        ("two.nc --variable three", "three"),
        ("two.nc", "ice"),
        ("complete.nc --dims ''", ""),
        ("tmin.csv", "--time date --value tmin --station id --lon lon --lat lat"),
        ("stations.csv.gz --time date --value tmx --lon lon --lat lat", "did you mean tmax"),
    ],
    "show": [
        ("none.law", "none of this name"),
        ("complete.nc", "spdelaw fit complete.nc"),
        ("empty.law", "none of this name"),
        ("broken.law", ""),
    ],
    "discover fronts.nc": [
        ("--library u,,u^3", "names separated by commas"),
        ("--fixed nu=small", "name=value"),
        ("--fixed '=1'", "name=value"),
    ],
    "fill sea.nc": [
        ("--out x.txt", ".nc or .zarr"),
        ("--basis x", "--basis"),
        ("--drift x", "--drift"),
        ("--residual x", "--residual"),
        ("--seconds=-3", "--seconds"),
        ("--modes 0", "--modes"),
    ],
    # Once laws were compared for two minutes, and no gap was filled.
    "fill seen.nc": [("", "expected gaps to fill, got none; "), ("", "--everywhere")],
    "skill calm.nc --first 60 --refits 1": [
        ("--leads 1,x", "whole numbers"),
        ("--modes two", "whole numbers"),
        ("--origins sliding", "expanding"),
        ("--residual pink", "white"),
        ("--refits 0", "positive"),
        ("--figure x.txt", ".png"),
        ("--out x.txt", ".nc or .zarr"),
    ],
    "sample a.law": [("--out x.xlsx", "ends in .nc or .zarr"), ("--out complete.nc", "--force")],
    "reconstruct a.law complete.nc": [("--out test.nc", "--force"), ("--points 0", "--points")],
    "forecast a.law complete.nc": [
        ("", "got neither"),
        ("--until 2 --times 2", "got both"),
        ("--times 2 --steps 3", "got both"),
        ("--until 0.5", "after the history's last, 1"),
        ("--until nan", "after the history's last"),
        ("--until soon", "dates such as"),
        ("--until 2 --steps 0", "--steps"),
        ("--until 2 --out test.nc", "--force"),
        ("--until 2 --out complete.nc --force", "differs from the input"),
    ],
    "evaluate a.law": [
        ("complete.nc --truth plain.nc", "none in plain.nc"),
        ("plain.nc --truth complete.nc --no-truth", "got both"),
        ("few_modes.nc", "--no-truth"),
    ],
    "compare": [
        ("m1.law b.law", "same values"),
        ("m1.law", "at least two"),
        ("m1.law none.law", "none of this name"),
    ],
    "report a.law": [
        ("--data test.nc --out x.txt", ".html"),
        ("--out x.html", "a file of data"),
        ("--skill pipe.json --data test.nc --out x.html", "a pipe or a device"),
        ("none.law --data test.nc --out x.html", "none of this name"),
        ("--data test.nc --max-paths 0 --out x.html", "positive"),
    ],
    "dataset": [
        ("moon --out x.nc", "one of equatorial-pacific"),
        ("equatorial-pacific --out x.zarr", ".nc"),
        ("equatorial-pacific --out complete.nc", "exists"),
        ("station-tmax --out x.nc", ".csv"),
    ],
}  # fmt: skip
OUT = {"simulate": "x.nc", "fit complete.nc": "x.law", "fit": "x.law", "fill sea.nc": "x.nc",
       "fill seen.nc": "x.nc", "forecast a.law complete.nc": "x.nc",
       "reconstruct a.law complete.nc": "x.nc"}  # fmt: skip
READERS = {"reconstruct": "--out x.nc", "forecast": "--until 2 --out x.nc", "evaluate": ""}
READ = [("none.law complete.nc", "none of this name"), ("complete.nc complete.nc", "directory"),
        ("a.law none.nc", "none of this name"), ("a.law dims.nc", ""),
        ("a.law other.nc", "as the law"), ("a.law beyond.nc", "points")]  # fmt: skip


def lines():
    for command, rows in REFUSED.items():
        for options, text in rows:
            out = f" --out {OUT[command]}" if command in OUT and "--out" not in options else ""
            yield f"{command} {options}{out}", text
    for reader, options in READERS.items():
        for names, text in READ:
            yield f"{reader} {names} {options}", text


@pytest.mark.parametrize(("line", "text"), list(lines()))
def test_refused(fails, files, monkeypatch, line, text):
    monkeypatch.chdir(files)
    before = sorted(files.rglob("*"))
    assert text in fails(line)
    assert sorted(files.rglob("*")) == before


MISSING = ("fit none.nc", "fill none.nc --modes x", "skill none.nc --first x",
           "forecast a.law none.nc", "reconstruct a.law none.nc", "report a.law none.nc",
           "evaluate a.law none.nc --truth few_modes.nc")  # fmt: skip


@pytest.mark.parametrize("line", MISSING)
def test_a_missing_file_is_reported_before_anything_else(fails, files, monkeypatch, line):
    """Also before a missing --out, and before options that cannot be read."""
    monkeypatch.chdir(files)
    assert fails(line).startswith("error: none.nc: expected a ")


def test_outputs_are_needed_and_files_of_strangers_are_kept(fails, files, folder):
    """A folder that is no store, or a file where a store belongs, may be somebody's work."""
    for command in ("fit", "fill"):
        assert "--out" in fails(f"{command} {files / 'sst.nc'}")
    for name in ("thesis.zarr", "thesis.law", "c.nc"):
        (folder / name).mkdir()
        (folder / name / "chapter.tex").write_text("years")
    (folder / "b.zarr").write_text("text")
    for name in ("thesis.zarr", "b.zarr", "c.nc"):
        assert "spdelaw" in fails(f"simulate heat --out {name} --force")
    line = fails(f"fit {files / 'complete.nc'} --out thesis.law --force")
    assert "a directory that spdelaw wrote" in line
    assert (folder / "thesis.zarr" / "chapter.tex").read_text() == "years"
    assert (folder / "thesis.law" / "chapter.tex").read_text() == "years"


def test_folders_that_cannot_be_written_and_fields_beyond_memory(fails, folder, monkeypatch):
    """Root may write anywhere, so the system's answer is put in its mouth."""
    monkeypatch.setattr("spdelaw.data.io.safe_files.usable_memory", lambda: 1000)
    assert "pass --out a.zarr" in fails("simulate heat --paths 5 --out a.nc")
    monkeypatch.setattr("spdelaw.cli.output.os.access", lambda *_: False)
    for name in ("a.nc", "a.zarr"):
        assert "writable folder" in fails(f"simulate heat --paths 1 --out {name}")


CONFIGS = [
    ("modes: 2\nmodez: 3\n", "fit.yaml, line 2: expected an option of the command"),
    ("engin: exact\n", "Fix: did you mean engine?"),
    ("modes: 2\nmodes: 3\n", "line 2: expected modes once"),
    ("level: high\n", "line 1: expected a value for level"),
    ("bounds: 3\n", "line 1: expected a list"),
    ("modes: [1, 2]\n", "line 1: expected one value for modes"),
    ("detrend: 7\n", "line 1: expected true or false"),
    ("modes: true\n", "line 1: expected no true or false"),
    ("modes:\n", "line 1: expected a value for modes, got nothing"),
    ("modes: {a: 1}\n", "line 1: expected a value for modes, got nested"),
    ("# comment\n\nengine: magic\n", "line 3, engine: expected one of exact"),
    ("modes: 2\n  x: [\n", "line 2"),
    ("- 1\n- 2\n", "line 1: expected options as 'name: value'"),
    ("just text\n", "line 1: expected options"),
    ("config: other.yaml\n", "line 1: expected an option"),
    (b"\xff\xfe\x00", "--config"),
]


@pytest.mark.parametrize(("text", "message"), CONFIGS)
def test_config_errors_name_the_line(fails, files, folder, text, message):
    (folder / "fit.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert message in fails(f"fit {files / 'complete.nc'} --config fit.yaml --out a.law")


DOMAINS = [
    ('{"name": "box"}', "two or three sides"),
    ('{"name": "mesh"}', "the fields modes, nodes"),
    ('{"name": "graph", "modes": [[1]]}', "the fields adjacency"),
    ("[1, 2]", "a dict with a name"),
    ('{"name": ' + "[" * 100_000, "nested too deeply"),
    ("box", "a file of json.dumps"),
    (None, "a regular file, got a pipe"),
]


@pytest.mark.parametrize(("text", "message"), DOMAINS, ids=range(len(DOMAINS)))
def test_a_domain_file_that_is_none(fails, folder, files, text, message):
    if text is None:
        os.mkfifo("domain.json")
    else:
        (folder / "domain.json").write_text(text)
    assert message in fails(f"fit {files / 'square.nc'} --domain domain.json --out a.law")
