#!/usr/bin/env python3
"""Fits the logistic model of server/detect/step_confidence.cc and prints its constants.

    bench/replay/fit_confidence.py build/release/bin/weft-replay PREFIX...

PREFIX_series.f32.gz and PREFIX_labels.csv are sets of 500-sample series in the format of the detection benchmark.
Each closer look that passes MayBeStep is one case; it is right when the series had stepped by then and the onset is
not placed more than 5 samples too early. Needs numpy.
"""

import csv
import gzip
import json
import subprocess
import sys
import tempfile

import numpy as np

SAMPLES = 500
MARGIN = 5
RIDGE = 1 / 0.3  # on standardised features
TYPICAL = np.array([2.0, 1.5, 2.25, 0.3, 1.5, 0.9, 0.8, 0.7])


def looks(replay, prefix):
    raw = gzip.open(prefix + "_series.f32.gz").read()
    with tempfile.NamedTemporaryFile() as data, tempfile.NamedTemporaryFile() as out:
        data.write(raw)
        data.flush()
        rows = len(raw) // 4 // SAMPLES
        subprocess.run([replay, "evidence", "--rows", str(rows), "--cols", str(SAMPLES), "--in", data.name,
                        "--out", out.name], check=True, capture_output=True)
        return [look for look in map(json.loads, open(out.name)) if look["may_be"]]


def features(look):
    def log(value, most):
        return np.log(np.clip(value, 0.3, most))
    return [log(look["contrast"], 50), log(look["contrast_beside_slope"], 50), log(look["after"], 60),
            look["correlation"], log(100 * look["shift"], 30), look["share_low"], look["onset_mass"],
            log(look["shift"] / look["scale"], 20)]


def with_products(x):
    return np.hstack([x] + [x[:, i:i + 1] * x[:, i:] for i in range(x.shape[1])])


def fit(x, is_right):
    """Ridge logistic regression by Newton's method. Returns weights and bias for the features as they are."""
    mean, deviation = x.mean(0), x.std(0)
    z = np.hstack([(x - mean) / deviation, np.ones((len(x), 1))])
    ridge = np.append(np.full(x.shape[1], RIDGE), 0)
    weights = np.zeros(z.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(z @ weights, -30, 30)))
        gradient = z.T @ (p - is_right) + ridge * weights
        hessian = (z * (p * (1 - p))[:, None]).T @ z + np.diag(ridge)
        step = np.linalg.solve(hessian, gradient)
        weights -= step
        if np.abs(step).max() < 1e-8:
            break
    slopes = weights[:-1] / deviation
    return slopes, weights[-1] - slopes @ mean


def main():
    replay, prefixes = sys.argv[1], sys.argv[2:]
    x, is_right = [], []
    for prefix in prefixes:
        onsets = [int(row["onset"]) for row in csv.DictReader(open(prefix + "_labels.csv"))]
        for look in looks(replay, prefix):
            onset = onsets[look["row"]]
            x.append(features(look))
            is_right.append(onset >= 0 and look["at"] >= onset and look["onset"] >= onset - MARGIN)
    slopes, bias = fit(with_products(np.array(x) - TYPICAL), np.array(is_right, float))
    slopes = np.round(slopes, 2)
    count = len(TYPICAL)
    print(f"{len(x)} looks, {sum(is_right)} right\nkBias = {bias:.2f}\nkLinear = {slopes[:count].tolist()}")
    rest = slopes[count:].tolist()
    for i in range(count):
        print("{" + ", ".join(f"{value:g}" for value in [0] * i + rest[:count - i]) + "},")
        rest = rest[count - i:]


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main()
