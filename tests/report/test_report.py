"""The one-file report: what it says, what it refuses, and how it lives in a real browser."""

import base64
import dataclasses
import gzip
import re
import sys

import numpy as np
import pytest
import xarray as xr
from tests.report.pages import FIGURES, figures_of, open_whole, unpacked

import spdelaw as sl
from spdelaw.errors import FileError, InputError, MissingExtraError
from spdelaw.report import data as data_module
from spdelaw.report.figures.charts import thinned
from spdelaw.report.page import write_report
from spdelaw.report.plots import packed, time_labels
from spdelaw.report.sections import ENERGY_TIMES, compare
from spdelaw.report.summary import summary_text

pytest.importorskip("plotly")

EQUATION = sl.catalogue.heat(n_modes=3)
TIMES = np.linspace(0.0, 1.0, 21)
GRID = np.linspace(0.0, np.pi, 17)


def simulated(n_paths=12, seed=0, times=TIMES, std=0.05):
    return sl.simulate(EQUATION, n_paths, times=times, grid=GRID, seed=seed, observation_std=std)


@pytest.fixture(scope="module")
def gappy():
    return sl.mask(simulated(), "random", 0.3, seed=0)


@pytest.fixture(scope="module")
def law(gappy):
    return sl.fit(gappy, EQUATION.domain, 3, mean="zero")


@pytest.fixture(scope="module")
def page(tmp_path_factory, law, gappy):
    chaos = sl.fit(gappy, EQUATION.domain, 3, engine="chaos", n_time=6, mean="zero")
    file = tmp_path_factory.mktemp("report") / "report.html"
    return write_report(file, {"exact": law, "<b>chaos</b>": chaos}, gappy, truth=EQUATION,
                        title="A </script><b>title</b>")  # fmt: skip


def figures(file):
    return {figure["name"]: figure for figure in figures_of(file)}


# ------------------------------------------------------------------ the file


def test_page_is_one_file_with_all_sections(page, gappy):
    text = page.read_text(encoding="utf-8")
    assert set(figures(page)) == FIGURES
    for name in (*FIGURES - {"innovations", "coverage"}, "calibration", "engines", "provenance"):
        assert f'<section id="{name}">' in text
    library = re.search(r'id="plotly" data-version="[0-9.]+">([A-Za-z0-9+/=]+)</script>', text)
    assert b"plotly.js v" in gzip.decompress(base64.b64decode(library[1]))[:500]
    assert page.stat().st_size < 3_000_000
    outside = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', outside)
    for word in ("<b>title</b>", "<b>chaos</b>", "Skill of forecasts", 'id="reaction"'):
        assert word not in text
    assert "{{" not in outside
    for word in (sl.describe(gappy)["fingerprint"], "Wiener Chaos", sl.__version__):
        assert word in text


def test_report_twice_with_a_section_of_skill(law, gappy, tmp_path):
    row = [{"estimate": 1.0, "lower": 0.9, "upper": 1.1}]
    scores = {m: {"rmse": row, "crps": row} for m in ("law", "climatology")}
    skill = {"leads": [2], "scores": scores, "level": 0.9, "units": "K", "facts": ["8 origins"],
             "verdict": "law against climatology: ahead at lead 2"}  # fmt: skip
    before = gappy.copy(deep=True)
    one, two = (write_report(tmp_path / f"{n}.html", law, gappy, seed=3, skill=skill) for n in "ab")
    assert figures_of(one) == figures_of(two)
    xr.testing.assert_identical(gappy, before)
    for words in ("Skill of forecasts", "Law against climatology: ahead", "8 origins",
                  "1 [0.9, 1.1]"):  # fmt: skip
        assert words in one.read_text()


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"path": "report.pdf"}, FileError, "ends in .html"),
        ({"laws": {}}, InputError, "one to 4 laws"),
        ({"laws": {"a": 1}}, InputError, "a Law or a dict"),
        ({"wider": sl.Interval(-1, np.pi + 1)}, InputError, "one domain"),
        ({"max_paths": 0}, InputError, "positive"),
        ({"skill": {"leads": [1]}}, InputError, "to_dict"),
        ({"plotly": None}, MissingExtraError, r"spdelaw\[report\]"),
    ],
)
def test_refusals(law, gappy, tmp_path, monkeypatch, settings, error, message):
    words = dict(settings)
    path, laws = words.pop("path", "report.html"), words.pop("laws", law)
    if "wider" in words:
        laws = {"a": law, "b": dataclasses.replace(law, domain=words.pop("wider"))}
    if "plotly" in words:
        monkeypatch.setitem(sys.modules, "plotly", words.pop("plotly"))
    with pytest.raises(error, match=message):
        write_report(tmp_path / path, laws, gappy, **words)
    assert list(tmp_path.iterdir()) == []


def test_a_long_record_is_scored_whole_and_shown_in_part(tmp_path, law, monkeypatch):
    """Scores, description and checks are those of the record in memory; figures are of its head."""
    data = sl.mask(simulated(1, times=np.linspace(0.0, 3.0, 61)), "random", 0.3, seed=0)
    monkeypatch.setattr(data_module, "SHOWN_BYTES", 40 * 8 * data.sizes["x"])
    here, there = (
        data_module.gather(law, one, EQUATION, None, 100, 0) for one in (data, data.chunk(time=30))
    )
    assert there.fields.sizes["time"] == 40
    assert there.description == here.description
    assert summary_text(there) == summary_text(here)
    for tier, score in here.card.tiers.items():
        np.testing.assert_allclose(there.card.tiers[tier], score, rtol=1e-9)
    page = write_report(tmp_path / "long.html", law, data.chunk(time=30), truth=EQUATION)
    assert "the first 40 times; scores and checks use all times" in page.read_text(encoding="utf-8")


# ------------------------------------------------------------------ kinds of data and of laws


def single():
    return simulated(1, times=np.linspace(0.0, 4.0, 81), std=0.0)


def own_times():
    rng = np.random.default_rng(0)
    clocks = [np.r_[0.0, np.sort(rng.uniform(0.02, 1.0, 12 + i % 3))] for i in range(10)]
    return sl.stack([simulated(1, i, t)[0] for i, t in enumerate(clocks)])


def dated():
    fields = simulated(8).assign_attrs(units="degC")
    days = np.datetime64("2020-01-15") + (365 * TIMES).astype("timedelta64[D]")
    return sl.as_fields(fields.drop_vars("time").assign_coords(time=days))


def too_short_to_cut():
    return simulated(40, times=[0.0, 0.1, 0.3], std=0.0)


@pytest.mark.parametrize("kind", [single, own_times, dated, too_short_to_cut])
def test_every_kind_of_data_gets_a_report(kind, tmp_path):
    fields = kind()
    law = sl.fit(fields, EQUATION.domain, 2)
    page = write_report(tmp_path / "r.html", law, fields)
    assert {"spectra", "fields", "samples", "moments", "coverage"} <= set(figures(page))
    assert ("forecast" in figures(page)) == (kind is not too_short_to_cut)
    words = ("2020-01-15", "field (degC)") if kind is dated else ()
    assert all(word in page.read_text(encoding="utf-8") for word in words)


HEAT, FORCING = sl.catalogue.heat(n_modes=2), sl.Forcing([0.0, 1.0], [[9.0, 0.0], [9.0, 0.0]])
RING = sl.catalogue.advection_diffusion(5, speed=3.0)
STORMY = dataclasses.replace(HEAT, season=sl.Season(0.5, [3.0, 1.0]))
HEATED = dataclasses.replace(HEAT, forcing=FORCING)


@pytest.mark.parametrize(
    ("equation", "settings", "words"),
    [
        (RING, {"drift": "normal"}, ("Eigenmodes of the drift", "does not oscillate")),
        (STORMY, {"season": sl.Season(0.5, 2)}, ("noise in season 2, relative",)),
        (HEATED, {"forcing": FORCING}, ("The model fits",)),  # what the forcing leaves is judged
    ],
)
def test_laws_of_every_kind_get_a_report(equation, settings, words, tmp_path):
    grid = equation.domain.grid(16)
    data = sl.simulate(equation, 20, TIMES, grid, seed=0, observation_std=0.05)
    law = sl.fit(data, equation.domain, equation.n_modes, **settings)
    text = write_report(tmp_path / "r.html", law, data, truth=equation).read_text(encoding="utf-8")
    if equation is RING:
        words = (*words, f"{law.eigenmodes()['period'].values[-1, 0]:.4g}")
    assert all(word in text for word in words)


def test_paths_without_data_are_not_shown(law, gappy, tmp_path):
    holed = gappy.copy()
    holed[0] = np.nan
    holed[2, :15] = np.nan
    shown = figures(write_report(tmp_path / "r.html", law, holed))
    assert shown["fields"]["controls"][0]["labels"] == ["path 1", "path 3", "path 4"]
    titles = [note["text"] for note in shown["samples"]["layout"]["annotations"]]
    assert titles[:3] == ["data, path 1", "data, path 3", "data, path 4"]
    assert np.isfinite(unpacked(shown["forecast"]["arrays"]["mean"])).all()


# ------------------------------------------------------------------ words and numbers


def answers_of(law, data, truth=None):
    return summary_text(data_module.gather(law, data, truth, None, 100, 0))


def test_words_follow_the_verdict(law, gappy):
    good = answers_of(law, gappy, EQUATION)
    assert [a.question for a in good] == [
        "What was learned?",
        "How certain?",
        "Does the model fit?",
    ]
    assert good[2].short == "Yes"
    assert any("true equation is known" in sentence for sentence in good[2].sentences)
    wrong = sl.simulate(sl.catalogue.heat(n_modes=3, nu=5.0), 12, TIMES, GRID, seed=1)
    _, sure, fits = answers_of(law, 3 * wrong)
    assert fits.short == "No"
    assert any("What to try" in sentence for sentence in fits.sentences)
    assert "Do not rely on these intervals" in sure.short


def test_numbers_that_are_undetermined_are_said_to_be(law, gappy):
    table = law.parameters.copy(deep=True)
    table["eigenvalue"].loc[{"statistic": ["stderr", "upper"], "mode": [2, 3]}] = np.inf
    sure = answers_of(dataclasses.replace(law, parameters=table), gappy)[1]
    assert sure.short != "Precisely"
    assert any("not determine 2 of 6 parameters" in sentence for sentence in sure.sentences)
    assert sure.sentences[0].startswith("A typical 95 % interval is more than ± 1,000 % ")
    vague = law.with_info(identifiability={"undetermined": ["eigenvalue[2]"]})
    sure = answers_of(vague, gappy)[1]
    assert any("not determine 1 of 6 parameters" in sentence for sentence in sure.sentences)


def inside(curve):
    return (curve.low <= curve.data) & (curve.data <= curve.high)


def replicates(law, data):
    return compare(data_module.gather(law, data, None, None, 100, 0))[0]


def test_bands_of_draws_hold_data_of_the_same_law(law):
    """Data drawn from the law itself: 95 % bands hold at least 70 % of 3 modes and 20 times.

    Times are correlated, so the share wanders; the failure meant here is a bias, which would
    leave hardly any point inside.
    """
    data = law.sample(30, seed=9, observation_noise=True)
    over_time, energy = replicates(law, data)
    assert inside(over_time)[1:].mean() > 0.7
    assert inside(energy).sum() >= 2
    doubled, _ = replicates(law, 2 * data)
    assert (doubled.data > doubled.high)[5:].mean() > 0.9


def test_energy_is_right_through_gaps():
    """Six of sixteen points a row for eight modes: least squares could not tell them apart.

    The coefficients behind the data are known; so is what the smoother cannot know of them.
    """
    equation = sl.catalogue.heat(n_modes=8)
    times, points = np.linspace(0.0, 1.0, 41), equation.domain.grid(18)
    fields = sl.simulate(equation, 30, times, points, seed=2)
    c = equation.domain.analyse(fields, 8).values
    noisy = fields + 0.02 * np.random.default_rng(0).standard_normal(fields.shape)
    gappy = sl.mask(noisy, "random", 0.6, seed=3)
    _, energy = replicates(sl.fit(gappy, equation.domain, 8), gappy)
    rows = 20 + thinned(21, ENERGY_TIMES)
    np.testing.assert_allclose(energy.data, (c[:, rows] ** 2).mean((0, 1)), rtol=0.25)
    # Null: the law is right, and more than 4 of 8 are outside a 95 % band with P < 2e-5.
    assert inside(energy).sum() >= 4


def test_times_with_a_calendar_of_the_real_world_become_dates():
    attrs = {"units": "days since 2006-04-16", "calendar": "proleptic_gregorian"}
    real = time_labels(np.array([0.0, 30.5]), attrs)
    expected = np.array(["2006-04-16T00:00:00", "2006-05-16T12:00:00"], "datetime64[s]")
    np.testing.assert_array_equal(real.positions, expected)
    model = time_labels(np.array([0.0, 30.0, 345.0]), {**attrs, "calendar": "360_day"})
    assert model.title == "year (360_day calendar)"
    assert model.texts == ["2006-04-16", "2006-05-16", "2007-04-01"]
    np.testing.assert_allclose(model.positions, [2006 + 105 / 360, 2006 + 135 / 360, 2007.25])
    assert time_labels(np.array([0.5]), {"units": "seconds"}).title == "time (seconds)"


def test_names_from_data_are_plain_text_in_figures(page, law, gappy, tmp_path):
    """plotly.js takes ``<b>`` in names and titles for HTML."""
    names = {trace.get("name") for trace in figures(page)["spectra"]["data"]}
    assert "&lt;b&gt;chaos&lt;/b&gt;" in names
    marked = gappy.rename("<i>T</i> & U").assign_attrs(units="<sup>2</sup>")
    shown = figures(write_report(tmp_path / "r.html", law, marked))
    title = shown["forecast"]["layout"]["yaxis"]["title"]["text"]
    assert title == "&lt;i&gt;T&lt;/i&gt; &amp; U (&lt;sup&gt;2&lt;/sup&gt;)"


def test_arrays_survive_packing():
    values = np.array([[1.0, np.nan], [-2.5, 3.0]])
    np.testing.assert_array_equal(unpacked(packed(values)), values.astype("f4"))
    assert thinned(1000, 5).tolist() == [0, 250, 500, 749, 999]
    assert thinned(3, 5).tolist() == [0, 1, 2]


# ------------------------------------------------------------------ in a browser


#: Pairs of panels of one figure whose plot areas overlap.
OVERLAPS = """[...document.querySelectorAll('.plot')].flatMap(plot => {
    const boxes = Object.entries(plot.layout).filter(([key]) => key.startsWith('xaxis'))
        .map(([key, x]) => [x.domain ?? [0, 1], plot.layout['y' + key.slice(1)].domain ?? [0, 1]]);
    const cross = ([a, b], [c, d]) => a < d - 1e-6 && c < b - 1e-6;
    return boxes.flatMap((one, i) => boxes.slice(i + 1)
        .filter(other => cross(one[0], other[0]) && cross(one[1], other[1])));
})"""


def test_page_loads_alone_draws_every_figure_and_fits_narrow_windows(page, browser):
    open_whole(browser, page)
    titles = browser.run("[...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title)")
    assert not [t for t in titles if re.search("share|cloud|edit", t, re.IGNORECASE)]
    panels = "document.getElementById('plot-spectra').layout.xaxis2.domain[0]"
    for width in (1024, 700, 390):
        browser.resize(width, 800)
        browser.open(page)
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert (browser.run(panels) == 0) == (width == 390), "one above the other on a phone"
        assert browser.run(OVERLAPS) == []
    browser.resize(1280, 900)


MOVE = """(async () => {
    const slider = document.getElementById('fields-time');
    slider.value = VALUE;
    slider.dispatchEvent(new Event('input'));
    await new Promise(done => setTimeout(done, 400));
    const plot = document.getElementById('plot-fields');
    const trace = plot.data.find(t => t.name === 'reconstructed');
    return [Array.from(trace.y), plot.layout.shapes.at(-1).x0,
            slider.parentElement.querySelector('output').textContent];
})()"""


def test_slider_moves_the_field(page, browser, law, gappy):
    browser.open(page)
    mean = law.reconstruct(gappy)["mean"].values[0]
    for step in (0, 7, 20):
        line, cursor, text = browser.run(MOVE.replace("VALUE", str(step)))
        np.testing.assert_allclose(line, mean[step], rtol=1e-5, atol=1e-6)
        assert cursor == pytest.approx(TIMES[step])
        assert float(text) == pytest.approx(TIMES[step], abs=1e-6)


def test_dark_light_and_paper(page, browser, tmp_path):
    ground = "getComputedStyle(document.body).backgroundColor"
    ink = "document.querySelector('#plot-spectra .xtick text').style.fill"
    browser.media(dark=True)
    browser.open(page)
    dark = browser.run(ground), browser.run(ink)
    browser.run("document.getElementById('theme').click()")
    light = browser.run(ground), browser.run(ink)
    assert light[0] == "rgb(255, 255, 255)"
    assert all(a != b for a, b in zip(dark, light, strict=True))
    assert browser.pdf(tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    widths = "[...document.querySelectorAll('.plot')].map(p => p.querySelector('svg').clientWidth)"
    browser.run("window.dispatchEvent(new Event('beforeprint'))")
    assert set(browser.run(widths)) == {640}, "figures are drawn for the width of the paper"
    browser.run("window.dispatchEvent(new Event('afterprint'))")
    assert min(browser.run(widths)) > 640
    browser.media()
