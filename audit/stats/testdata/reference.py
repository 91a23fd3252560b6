"""Writes reference.json: what NumPy, SciPy and statsmodels say of the inputs in it.

    python reference.py > reference.json
"""

import itertools
import json
import sys

import numpy as np
import scipy
import statsmodels
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

rng = np.random.default_rng(0)


def percentiles():
    for n in (1, 2, 3, 7, 100, 101):
        values = rng.normal(size=n).round(6)
        yield {"values": values.tolist(), "q": (q := [0, 2.5, 25, 50, 97.5, 100]), "want": np.percentile(values, q).tolist()}


def mcnemars():
    for b, c in [(0, 0), (1, 0), (0, 3), (5, 2), (10, 25), (120, 121), (400, 250), (900, 300), (3, 111)]:
        corrected = mcnemar([[0, b], [c, 0]], exact=False, correction=True) if b + c else None
        yield {
            "b": b,
            "c": c,
            "exact": min(1.0, float(mcnemar([[0, b], [c, 0]], exact=True).pvalue)),
            "chi_squared": float(corrected.statistic) if corrected else 0.0,
            "corrected": float(corrected.pvalue) if corrected else 1.0,
        }


def signs():
    for positive, negative in [(111, 0), (0, 5), (8, 3), (7, 7), (67, 33), (500, 480)]:
        yield {"positive": positive, "negative": negative, "want": float(stats.binomtest(positive, positive + negative, 0.5).pvalue)}


def holms():
    for n in (1, 2, 5, 11):
        p = rng.uniform(size=n) ** 3
        yield {"p": p.tolist(), "want": multipletests(p, method="holm")[1].tolist()}
    p = [0.01, 0.04, 0.01, 2.3e-18, 0.9]
    yield {"p": p, "want": multipletests(p, method="holm")[1].tolist()}


def spearmans():
    cases = []
    for n in (4, 8, 11, 112):
        x = rng.normal(size=n)
        cases.append((x, 0.5 * x + rng.normal(size=n)))
    ties = rng.integers(0, 4, size=30).astype(float)
    cases.append((ties, ties + rng.integers(0, 4, size=30)))
    for x, y in cases:
        rho, p = stats.spearmanr(x, y)
        interval = stats.pearsonr(stats.rankdata(x), stats.rankdata(y)).confidence_interval()
        yield {"x": x.tolist(), "y": y.tolist(), "rho": float(rho), "p": float(p), "low": float(interval.low), "high": float(interval.high)}


def wilsons():
    for k, n in [(0, 5), (5, 5), (1, 3), (50, 100), (2864, 3680)]:
        low, high = proportion_confint(k, n, method="wilson")
        yield {"k": k, "n": n, "low": float(low), "high": float(high)}


def bootstrap():
    """The exact bootstrap distribution of a mean, from every resample there is; of items, and of clusters of them."""
    values, cluster = [0.1, 0.9, 0.4, 0.4, 2.5, 1.1], [0, 0, 1, 2, 3, 3]
    means = [np.mean(pick) for pick in itertools.product(values, repeat=len(values))]
    parts = [[v for v, c in zip(values, cluster) if c == k] for k in range(4)]
    clustered = [np.mean(np.concatenate(pick)) for pick in itertools.product(parts, repeat=4)]
    describe = lambda draws: {"mean": float(np.mean(draws)), "std": float(np.std(draws)), "low": float(np.percentile(draws, 2.5)), "high": float(np.percentile(draws, 97.5))}
    return {"values": values, "cluster": cluster, "items": describe(means), "clusters": describe(clustered)}


json.dump(
    {
        "made_with": f"numpy {np.__version__}, scipy {scipy.__version__}, statsmodels {statsmodels.__version__}",
        "percentile": list(percentiles()),
        "mcnemar": list(mcnemars()),
        "sign": list(signs()),
        "holm": list(holms()),
        "spearman": list(spearmans()),
        "wilson": list(wilsons()),
        "bootstrap": bootstrap(),
    },
    sys.stdout,
    indent=1,
)
