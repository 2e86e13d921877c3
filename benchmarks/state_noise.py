"""Recovery of noise that depends on the state: bias, coverage, spread against an oracle, time.

    python -m benchmarks.state_noise recovery [sets] [setting]
    python -m benchmarks.state_noise information [states] [setting]
    python -m benchmarks.state_noise gappy [sets] [kind]
    python -m benchmarks.state_noise kinds [sets] [kind]
    python -m benchmarks.state_noise page

`recovery` fits complete fields, 12 paths of 50 transitions, and compares the estimates with those
of an oracle that holds the spectrum of W and the offset at the truth. `information` computes from
the moments of the transitions what that oracle gains by its knowledge, and what the best use of the
first two moments would gain, without any fit. `gappy` hides 30 % of the
values and adds noise. `kinds` asks `discover` whether noise is additive or in proportion to the
field.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import spdelaw as sl
from spdelaw.infer.semilinear.layout import layout

RESULTS = Path(__file__).parent / "results" / "state_noise.json"
TIMES = 0.1 * np.arange(51)
PATHS = 12
#: Kind, modes, and words of the fit.
SETTINGS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "proportional, 6 modes": ("proportional", 6, {}),
    "proportional, 16 modes": ("proportional", 16, {"drift": "parametric", "noise": "parametric"}),
    "affine, 6 modes": ("affine", 6, {}),
    "affine, 16 modes": ("affine", 16, {"drift": "parametric", "noise": "parametric"}),
    "square root, 6 modes": ("square_root", 6, {"terms": ("1", "u")}),
    "square root, 16 modes": ("square_root", 16, {"terms": ("1", "u")}),
    "proportional, 16 modes, all free": ("proportional", 16, {}),
}


def equation(kind: str, n_modes: int, times: Any = TIMES) -> sl.Semilinear:
    """The equation of the catalogue with noise of this kind."""
    if kind == "square_root":
        return sl.catalogue.square_root_heat(n_modes, times=times)
    offset = 0.5 if kind == "affine" else 0.0
    return sl.catalogue.geometric_heat(n_modes, noise_offset=offset, times=times)


def truth(e: sl.Semilinear, law: sl.Law) -> dict[str, float]:
    """True values of the free parameters by name."""
    lam, q = e.linear.eigenvalues, e.linear.noise_variance
    out = {f"eigenvalue[{n + 1}]": lam[n] for n in range(e.n_modes)}
    out |= {f"q_{n + 1}": q[n] for n in range(e.n_modes)}
    out |= {"nu": 0.2, "kappa": 0.0, "scale": q[0], "exponent": 1.5, "noise_offset": e.noise_offset}
    out |= dict(e.terms)
    return {name: float(out[name]) for name in law.info["standard_errors"] if name in out}


def errors_and_estimates(law: sl.Law, names: Any, level: float = 0.95) -> tuple[Any, Any, Any]:
    """Estimates, standard errors, and intervals of coordinates by name."""
    estimates, robust = law.info["estimates"], law.info["standard_errors"]
    x, s = (np.array([one[name] for name in names]) for one in (estimates, robust))
    positive = np.array([name.startswith("q_") or name == "scale" for name in names])
    width = 1.96 * s
    lower = np.where(positive, x * np.exp(-width / np.abs(x)), x - width)
    upper = np.where(positive, x * np.exp(width / np.abs(x)), x + width)
    return x, s, (lower, upper)


def oracle_words(e: sl.Semilinear, names: Any, true: dict[str, float]) -> dict[str, float]:
    """What an oracle holds: the spectrum of W and the offset."""
    held = ("q_", "scale", "exponent", "noise_offset")
    return {name: true[name] for name in names if name.startswith(held)}


def recovery(n_sets: int, only: str = "") -> dict[str, Any]:
    """Bias, coverage, spread against the oracle and seconds for each setting."""
    out = {}
    for label, (kind, n_modes, words) in SETTINGS.items():
        if only not in ("", label):
            continue
        e, z, seconds, x, oracle = equation(kind, n_modes), [], [], [], []
        hits = []
        for seed in range(n_sets):
            fields = sl.simulate(e, PATHS, seed=seed)
            options = {"state_noise": kind, "observation_noise": "none", **words}
            clock = time.process_time()
            law = sl.fit(fields, e.domain, n_modes, **options)
            seconds.append(time.process_time() - clock)
            true = truth(e, law)
            names = list(true)
            values = np.array(list(true.values()))
            estimate, error, (lower, upper) = errors_and_estimates(law, names)
            hits.append((lower <= values) & (values <= upper))
            z.append((estimate - values) / error)
            x.append(estimate)
            if seed < ORACLE_SETS:
                held = oracle_words(e, names, true)
                best = sl.fit(fields, e.domain, n_modes, fixed=held, **options)
                oracle.append([best.info["estimates"][n] for n in names if n not in held])
        free = [i for i, n in enumerate(names) if n not in oracle_words(e, names, true)]
        spread = np.std(np.array(x)[: len(oracle)][:, free], axis=0) / np.std(oracle, axis=0)
        out[label] = {
            "sets": n_sets,
            "parameters": names,
            "coverage": float(np.mean(hits)),
            "least coverage": float(np.mean(hits, axis=0).min()),
            "coverages": np.mean(hits, axis=0).round(3).tolist(),
            "mean z": np.mean(z, axis=0).round(2).tolist(),
            "sd z": np.std(z, axis=0).round(2).tolist(),
            "spread over oracle, drift": spread.round(3).tolist(),
            "seconds": float(np.median(seconds)),
        }
        print(label, json.dumps({k: v for k, v in out[label].items() if k != "parameters"}))
    return out


#: Sets that an oracle is fitted to as well.
ORACLE_SETS = 200
#: Draws of the next state from each state, and their sub-steps, for its fourth moments.
DRAWS, DRAW_STEPS = 3000, 8


def information(n_states: int, only: str = "") -> dict[str, Any]:
    """Asymptotic spread over the oracle's, and efficiency among uses of the first two moments.

    With ``D = d(m, P) / d theta``, and with W the covariance of ``(r, r r' - P)`` of a Gaussian and
    V the true one, the fit has the covariance ``I^-1 (sum D' W^-1 V W^-1 D) I^-1``, where
    ``I = sum D' W^-1 D``. The best weights have ``(sum D' V^-1 D)^-1``. The oracle has the same
    without its parameters.
    """
    out = {}
    for label, (kind, n_modes, words) in SETTINGS.items():
        if kind == "square_root" or only not in ("", label):
            continue
        e, drift = equation(kind, n_modes), words.get("drift", "diagonal")
        form = layout(e.domain, n_modes, (), drift=drift, state_noise=kind,
                      noise=words.get("noise", "diagonal"))  # fmt: skip
        q, lam = e.linear.noise_variance, e.linear.eigenvalues
        numbers = {f"q_{n + 1}": q[n] for n in range(n_modes)} | {"scale": q[0], "exponent": 1.5}
        numbers |= {f"eigenvalue[{n + 1}]": lam[n] for n in range(n_modes)}
        numbers |= {"nu": 0.2, "kappa": 0.0, "noise_offset": e.noise_offset}
        full = form.vector(numbers)
        held = oracle_words(e, form.names, numbers)
        free = [i for i, name in enumerate(form.names) if name not in held]
        sums = [np.zeros((len(full), len(full))) for _ in range(3)]
        for state in states_of(e, n_states):
            d, gaussian, true = moments_of(e, form, full, state)
            weighted = np.linalg.solve(gaussian, d)
            sums[0] += d.T @ weighted
            sums[1] += weighted.T @ true @ weighted
            sums[2] += d.T @ np.linalg.solve(true, d)
        fit, oracle = spread(*sums[:2]), spread(*(s[np.ix_(free, free)] for s in sums[:2]))
        best = np.sqrt(np.diag(np.linalg.inv(sums[2])))
        best_oracle = np.sqrt(np.diag(np.linalg.inv(sums[2][np.ix_(free, free)])))
        out[label] = {
            "states": n_states,
            "parameters": [form.names[i] for i in free],
            "spread over oracle": (fit[free] / oracle).round(3).tolist(),
            "of the best weights": (best[free] / best_oracle).round(3).tolist(),
            "spread over the best weights": (fit / best)[free].round(3).tolist(),
            "of the spectrum": np.delete(fit / best, free).round(3).tolist(),
        }
        print(label, json.dumps(out[label]))
    return out


def states_of(e: sl.Semilinear, n: int) -> Any:
    """States of simulated paths, drawn at random."""
    fields = sl.simulate(e, PATHS, seed=77)
    c = fields.values @ np.linalg.pinv(e.domain.eigenfunctions(fields.x.values, e.n_modes)).T
    flat = c[:, :-1].reshape(-1, e.n_modes)
    return flat[np.random.default_rng(0).choice(len(flat), n, replace=False)]


def moments_of(e: sl.Semilinear, form: Any, full: Any, state: Any) -> tuple[Any, Any, Any]:
    """D of a transition from a state, and covariances of ``(r, r r' - P)``, Gaussian and true."""
    closure, n, dt = form.closure(full), e.n_modes, float(TIMES[1])
    lift, (i, j) = closure.lift, np.triu_indices(n)
    z = lift.pack(state, np.outer(state, state))
    slopes = closure.flow_slopes(dt, form.directions(full))
    mean, second = lift.unpack(z @ closure.flow(dt).T)
    by_mean, by_second = lift.unpack(slopes @ z)
    p = second - np.outer(mean, mean)
    both = mean[:, None] * by_mean[:, None, :]
    by_p = (by_second - both - both.swapaxes(1, 2))[:, i, j]
    gaussian = np.zeros((n + len(i),) * 2)
    gaussian[:n, :n] = p
    gaussian[n:, n:] = p[np.ix_(i, i)] * p[np.ix_(j, j)] + p[np.ix_(i, j)] * p[np.ix_(j, i)]
    rng, d = np.random.default_rng(0), e.dynamics
    normals = rng.standard_normal((DRAW_STEPS, DRAWS, d.amplitude.n_drivers))
    r = d.multiplied(np.tile(state, (DRAWS, 1)), dt, normals) - mean
    true = np.cov(np.hstack([r, r[:, i] * r[:, j] - p[i, j]]).T)
    return np.hstack([by_mean, by_p]).T, gaussian, true


def additive_bound(n_modes: int, drift: str, noise: str) -> float:
    """Largest spread over the oracle's for additive noise, by Cramer and Rao.

    The same rates, spectrum and times with ``dX = A X dt + dW`` in its stationary law. Transitions
    are Gaussian there, so that no unbiased estimator has less, and with the slopes m' and v' of
    mean and variance a mode has the information ``E m' m'' / v + v' v'' / (2 v^2)``.
    """
    e, n, dt, h = equation("proportional", n_modes), np.arange(1.0, n_modes + 1), 0.1, 1e-6
    mu, q, one = e.domain.eigenvalues(n_modes), e.linear.noise_variance, np.eye(n_modes)
    lam = np.maximum(e.linear.eigenvalues, 0.01)  # the mean over the ring has no stationary law
    by_rate = one if drift == "diagonal" else np.stack([mu, np.ones(n_modes)], 1)
    by_log_q = one if noise == "diagonal" else np.stack([np.ones(n_modes), -np.log(n)], 1)

    def log_variance(rates: Any) -> Any:
        return np.log(-q * np.expm1(-2.0 * rates * dt) / (2.0 * rates))

    slope = (log_variance(lam + h) - log_variance(lam - h)) / (2.0 * h)
    by_variance = np.hstack([slope[:, None] * by_rate, by_log_q])
    by_mean = (
        np.hstack([by_rate, 0.0 * by_log_q]) * (dt / np.sqrt(np.expm1(2.0 * lam * dt)))[:, None]
    )
    total, k = by_mean.T @ by_mean + 0.5 * by_variance.T @ by_variance, by_rate.shape[1]
    fit, oracle = np.linalg.inv(total)[:k, :k], np.linalg.inv(total[:k, :k])
    return float(np.sqrt(np.diag(fit) / np.diag(oracle)).max())


def spread(slope: Any, squares: Any) -> Any:
    """Deviations of a sandwich."""
    inverse = np.linalg.inv(slope)
    return np.sqrt(np.diag(inverse @ squares @ inverse))


def gappy(n_sets: int, only: str = "") -> dict[str, Any]:
    """Coverage and seconds with 30 % of the values missing and noise."""
    out = {}
    for kind in ("proportional", "affine", "square_root"):
        if only not in ("", kind):
            continue
        e, hits, z, seconds = equation(kind, 6, 0.1 * np.arange(41)), [], [], []
        words: dict[str, Any] = {"drift": "parametric", "noise": "parametric"}
        if kind == "square_root":
            words = {"terms": ("1", "u")}
        for seed in range(n_sets):
            fields = sl.simulate(e, 20, seed=1000 + seed, observation_std=0.02)
            hidden = np.random.default_rng(seed).random(fields.shape) < 0.3
            clock = time.process_time()
            law = sl.fit(fields.where(~hidden), e.domain, 6, state_noise=kind, **words)
            seconds.append(time.process_time() - clock)
            true = truth(e, law)
            values = np.array(list(true.values()))
            estimate, error, (lower, upper) = errors_and_estimates(law, list(true))
            hits.append((lower <= values) & (values <= upper))
            z.append((estimate - values) / error)
        out[f"{kind}, 6 modes, 20 x 40"] = {
            "sets": n_sets,
            "parameters": list(true),
            "coverage": float(np.mean(hits)),
            "coverages": np.mean(hits, axis=0).round(3).tolist(),
            "mean z": np.mean(z, axis=0).round(2).tolist(),
            "seconds": float(np.median(seconds)),
        }
        print(kind, json.dumps(out[f"{kind}, 6 modes, 20 x 40"]))
    return out


def kinds(n_sets: int, only: str = "") -> dict[str, Any]:
    """How often additive and proportional noise are distinguished, 12 paths of 80 times."""
    times, out = 0.1 * np.arange(80), {}
    geometric = equation("proportional", 6, times)
    # the same drift and initial state, and noise of a similar size
    additive = sl.Semilinear(geometric.linear)
    for label, e in (("proportional", geometric), ("none", additive)):
        if only not in ("", label):
            continue
        right = 0
        for seed in range(n_sets):
            fields = sl.simulate(e, PATHS, seed=seed)
            right += (
                sl.discover(fields, e.domain, 6, library=("u",), bootstrap=0).state_noise == label
            )
        out[label] = {"sets": n_sets, "right": right}
        print(label, out[label])
    return out


def page() -> None:
    """Write the tables of `results/state_noise.md`."""
    results = json.loads(RESULTS.read_text())
    lines = ["# Noise that depends on the state", ""]
    lines += [
        "`python -m benchmarks.state_noise recovery 200`: complete, 12 paths x 50 transitions.",
        "",
    ]
    lines += [
        "| noise | sets | coverage of 95 % | least of a parameter | largest bias, s.e. "
        "| SD over oracle, drift | CPU s |"
    ]
    lines += ["| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for label, row in results.get("recovery", {}).items():
        bias, spread = np.abs(row["mean z"]).max(), max(row["spread over oracle, drift"])
        lines.append(
            f"| {label} | {row['sets']} | {row['coverage']:.3f} | {row['least coverage']:.3f} "
            f"| {bias:.2f} | {spread:.2f} | {row['seconds']:.2f} |"
        )
    lines += [
        "",
        "`python -m benchmarks.state_noise information 150` (16 modes: 60): without fits, from the",
        "moments of transitions. The oracle holds the spectrum of W, which a fit has to estimate.",
        "The columns are the largest over the drift of three ratios: spread of the fit over the",
        "oracle's, the same with the best weights of the first two moments, and the fit over these",
        "weights.",
        "Where the two first columns agree, the loss is the price of an unknown spectrum, which no",
        "use of these moments avoids: the variance of a fast mode depends on its rate too. The",
        "last column is that price for additive noise, by the bound of Cramer and Rao: no unbiased",
        "estimate avoids it.",
        "",
        "| noise | fit over oracle | best weights over their oracle | fit over best weights "
        "| additive |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for label, row in results.get("information", {}).items():
        names = "spread over oracle", "of the best weights", "spread over the best weights"
        _, n_modes, words = SETTINGS[label]
        bound = additive_bound(
            n_modes, words.get("drift", "diagonal"), words.get("noise", "diagonal")
        )
        numbers = [*(max(row[name]) for name in names), bound]
        lines.append(f"| {label} | " + " | ".join(f"{number:.2f}" for number in numbers) + " |")
    lines += ["", "`python -m benchmarks.state_noise gappy 50`: 30 % missing, noise of 0.02.", ""]
    lines += [
        "| noise | sets | coverage of 95 % | largest bias, s.e. | CPU s |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for label, row in results.get("gappy", {}).items():
        bias = np.abs(row["mean z"]).max()
        lines.append(
            f"| {label} | {row['sets']} | {row['coverage']:.3f} | {bias:.2f} "
            f"| {row['seconds']:.1f} |"
        )
    lines += [
        "",
        "`python -m benchmarks.state_noise kinds 100`: additive or proportional, 12 x 80.",
        "",
    ]
    lines += ["| truth | sets | right |", "| --- | ---: | ---: |"]
    for label, row in results.get("kinds", {}).items():
        lines.append(
            f"| {'additive' if label == 'none' else label} | {row['sets']} | {row['right']} |"
        )
    RESULTS.with_suffix(".md").write_text("\n".join([*lines, ""]))


def main(what: str = "page", n_sets: str = "0", only: str = "") -> None:
    """Run one part, keep the results of the others, and write the page."""
    if what != "page":
        warnings.simplefilter("ignore")
        part = {"recovery": recovery, "gappy": gappy, "information": information, "kinds": kinds}[
            what
        ](int(n_sets), only)
        results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        results[what] = results.get(what, {}) | part
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    page()


if __name__ == "__main__":
    main(*sys.argv[1:])
