"""Writes agreement.json: what statsmodels and the krippendorff package say of agreement between raters.

    python agreement.py > agreement.json
"""

import json
import sys
from importlib.metadata import version

import krippendorff
import numpy as np
from statsmodels.stats.inter_rater import aggregate_raters, cohens_kappa, fleiss_kappa

rng = np.random.default_rng(0)


def case(name, labels):
    """labels: items × raters, −1 where a rater did not judge."""
    labels = np.asarray(labels)
    k = int(labels.max()) + 1
    counts = np.stack([(labels == c).sum(axis=1) for c in range(k)], axis=1)
    whole = (labels >= 0).all(axis=1)
    with np.errstate(all="ignore"):
        fleiss = float(fleiss_kappa(counts[whole])) if whole.any() else None
    reliability = np.where(labels < 0, np.nan, labels.astype(float)).T
    alpha = float(krippendorff.alpha(reliability, level_of_measurement="nominal")) if k > 1 else None
    cohen = []
    for a in range(labels.shape[1]):
        for b in range(a + 1, labels.shape[1]):
            both = (labels[:, a] >= 0) & (labels[:, b] >= 0)
            table = np.zeros((k, k))
            for x, y in labels[both][:, [a, b]]:
                table[x, y] += 1
            with np.errstate(all="ignore"):
                value = float(cohens_kappa(table).kappa)
            cohen.append({"a": a, "b": b, "table": table.tolist(), "kappa": value if np.isfinite(value) else None})
    return {
        "name": name,
        "counts": counts.tolist(),
        "whole": whole.tolist(),
        "fleiss": fleiss if fleiss is not None and np.isfinite(fleiss) else None,
        "alpha": alpha,
        "cohen": cohen,
    }


def noisy(items, raters, categories, noise, missing=0.0, skew=None):
    truth = rng.choice(categories, size=items, p=skew)
    labels = np.repeat(truth[:, None], raters, axis=1)
    wrong = rng.uniform(size=labels.shape) < noise
    labels[wrong] = rng.integers(0, categories, size=int(wrong.sum()))
    labels[rng.uniform(size=labels.shape) < missing] = -1
    return labels


# 930 items of three yes and 70 of two to one: 93.0 % exact agreement
paper = [[1, 1, 1]] * 930 + [[1, 1, 0]] * 24 + [[1, 0, 1]] * 23 + [[0, 1, 1]] * 23
json.dump(
    {
        "made_with": "statsmodels " + version("statsmodels") + ", krippendorff " + version("krippendorff"),
        "cases": [
            case("93.0 % exact agreement, 98 % yes", paper),
            case("two raters, two categories", noisy(60, 2, 2, 0.3)),
            case("three raters, skewed", noisy(200, 3, 2, 0.2, skew=[0.1, 0.9])),
            case("five raters, four categories", noisy(80, 5, 4, 0.5)),
            case("three raters, a quarter missing", noisy(120, 3, 3, 0.3, missing=0.25)),
            case("perfect", noisy(50, 3, 3, 0.0)),
            case("worse than chance", [[0, 1], [1, 0], [0, 1], [1, 0], [0, 0]]),
            case("one category", [[0, 0, 0]] * 5),
        ],
    },
    sys.stdout,
    separators=(",", ":"),
)
