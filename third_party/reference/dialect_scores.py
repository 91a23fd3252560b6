#!/usr/bin/env python3
"""LP and perplexities of pairs of sentences with Hugging Face transformers, as reference values for Plumb's dialect audit.

Every pair's two continuations after its two contexts: a continuation follows its context after a space. One sequence each,
alone in its batch, in float32 with eager attention, on the weights of an F32 GGUF file made by f32.py. The metrics are
computed here again, from their definitions.

    dialect_scores.py MODEL-f32.gguf dialect_pairs.jsonl OUT.json
"""

import argparse
import json
import math

import torch

from bbq_scores import file_sha256, score
from hf_model import Model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL-f32.gguf")
    parser.add_argument("pairs", metavar="dialect_pairs.jsonl")
    parser.add_argument("out", metavar="OUT.json")
    args = parser.parse_args()

    model = Model(args.model)
    pairs, total, tokens, mean = [], {}, {}, {}
    with open(args.pairs, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        logp = {}
        for context in ("sae", "aae"):
            for continuation in ("sae", "aae"):
                key = f"{context}_{continuation}"
                scores = score(model, *model.split(row[f"{context}_context"], " " + row[f"{continuation}_continuation"]))
                logp[key] = math.fsum(scores)
                total[key] = total.get(key, 0) + logp[key]
                tokens[key] = tokens.get(key, 0) + len(scores)
                mean[key] = mean.get(key, 0) + math.exp(-logp[key] / len(scores)) / len(rows)
        b_sae, b_aae = logp["sae_sae"] - logp["sae_aae"], logp["aae_aae"] - logp["aae_sae"]
        pairs.append({"id": row["id"], "b_sae": b_sae, "b_aae": b_aae})
    values = {f"ppl_{key}": math.exp(-total[key] / tokens[key]) for key in total}
    values |= {f"mean_ppl_{key}": value for key, value in mean.items()}
    values["lp"] = math.fsum(p["b_sae"] - p["b_aae"] for p in pairs) / len(pairs)
    with open(args.out, "w") as out:
        json.dump({
            "about": "dialect metrics by transformers; made by dialect_scores.py",
            "model_sha256": file_sha256(args.model), "pairs_sha256": file_sha256(args.pairs), "torch": torch.__version__,
            "metrics": values, "pairs": pairs,
        }, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
