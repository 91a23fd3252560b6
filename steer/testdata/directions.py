"""Reference values for the directions, computed with NumPy in float64: python3 directions.py > directions.json

Two fits of random float32 states: one with fewer items than components, one with more.
"""

import json

import numpy as np


def unit(v):
    return v / np.linalg.norm(v)


def project_out(v, axis):
    return v - unit(axis) * (unit(axis) @ v)


def fit(rng, items, layers, width, strata):
    shape = (items, layers, width)
    shared = rng.normal(size=shape)
    states = {role: (shared + 0.7 * rng.normal(size=shape) + offset).astype(np.float32)
              for role, offset in (("biased", 0.3), ("anti", -0.2), ("unknown", 0.9))}
    margins = rng.exponential(size=items)
    edges = np.quantile(margins, np.arange(1, strata) / strata)
    stratum = np.digitize(margins, edges)
    s, a, u = (states[role].astype(np.float64) for role in ("biased", "anti", "unknown"))

    out = {key: [] for key in ("contrast", "stratified", "projected", "axis_cosine", "unprojected_cosine", "pca",
                               "explained", "unknown", "stereotype", "anti", "nothing")}
    for layer in range(layers):
        difference = (states["biased"] - states["anti"])[:, layer].astype(np.float64)
        contrast = (s - a)[:, layer].mean(axis=0)
        axis = (u - (s + a) / 2)[:, layer].mean(axis=0)
        projected = project_out(contrast, axis)
        _, singular, components = np.linalg.svd(difference - difference.mean(axis=0), full_matrices=False)
        component = components[0] * np.sign(components[0] @ contrast)
        preference = (a - s)[:, layer].mean(axis=0)

        out["contrast"].append(contrast)
        out["stratified"].append(np.mean([(s - a)[stratum == k, layer].mean(axis=0) for k in np.unique(stratum)], axis=0))
        out["projected"].append(projected)
        out["axis_cosine"].append(unit(contrast) @ unit(axis))
        out["unprojected_cosine"].append(unit(contrast) @ unit(projected))
        out["pca"].append(component)
        out["explained"].append(singular[0] ** 2 / (singular ** 2).sum())
        out["nothing"].append(preference)
        for name, states_of in (("unknown", u), ("stereotype", s), ("anti", a)):
            out[name].append(project_out(preference, states_of[:, layer].mean(axis=0)))

    return {
        "width": width, "strata": strata, "margins": margins.tolist(), "stratum": stratum.tolist(),
        "items": [{role: states[role][i].ravel().tolist() for role in states} for i in range(items)],
        "want": {key: np.array(value).tolist() for key, value in out.items()},
    }


rng = np.random.default_rng(17)
print(json.dumps([fit(rng, items=6, layers=2, width=9, strata=3), fit(rng, items=21, layers=3, width=5, strata=4)]))
