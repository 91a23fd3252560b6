#!/usr/bin/env python3
"""R of causal tracing with Hugging Face transformers, as reference values for plumb steer trace.

Of every pair whose AAE context holds a marker of the lexicon and whose two continuations differ: noise on the embeddings of
the markers' tokens, then every layer's clean output restored at one of these tokens in turn, by forward hooks. A batch is one
sequence as often as there are layers to restore, in float32 with eager attention. R is b_AAE of the corrupted run less b_AAE of the restored one (the paper's eq. 8).

The noise is the one that Plumb draws: its generator is a function of (seed, token's place among the corrupted, component),
and is written here again, in Python's integers and doubles. The seed is the FNV-1a hash of "SEED/CONTEXT".

    dialect_trace.py MODEL-f32.gguf dialect_pairs.jsonl lexicon.tsv OUT.json
"""

import argparse
import json
import math
import re

import numpy as np
import torch

from bbq_scores import file_sha256
from hf_model import Model

NOISE_FACTOR = 3.0
SEED = 1
BITS = (1 << 64) - 1


def mix(x):
    """SplitMix64 (Steele, Lea, Flood 2014) as a hash."""
    x = (x + 0x9E3779B97F4A7C15) & BITS
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & BITS
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & BITS
    return x ^ (x >> 31)


def uniform(bits):
    return ((bits >> 11) + 0.5) * 2.0**-53


def gaussian(seed, row, i):
    """Box and Muller (1958)."""
    key = mix(mix(mix(seed) ^ row) ^ i)
    return math.sqrt(-2 * math.log(uniform(mix(key)))) * math.cos(2 * math.pi * uniform(mix(key ^ 0xD1B54A32D192ED03)))


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & BITS
    return value


def read_markers(path):
    with open(path, encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t")[1] for line in lines][1:]


def marker_tokens(model, context, markers):
    """Places among the context's tokens of those that share a character with a marker."""
    encoded = model.tokenizer(context, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True)
    assert model.bos + encoded.input_ids == model.tokenize(context)
    spans = []
    for marker in markers:
        words = r"\s+".join(re.escape(word).replace("'", "['’]") for word in marker.split())
        spans += [match.span() for match in re.finditer(rf"(?<![\w'’]){words}(?!\w)", context, re.IGNORECASE)]
    return [len(model.bos) + i for i, (start, end) in enumerate(encoded.offset_mapping)
            if any(start < b and end > a for a, b in spans)]


class Tracer:
    def __init__(self, model):
        self.model, self.noise, self.place, self.clean = model, None, None, {}
        model.network.get_input_embeddings().register_forward_hook(self.corrupt)
        for layer, block in enumerate(model.layers):
            block.register_forward_hook(lambda module, args, out, layer=layer: self.restore(layer, out))

    def corrupt(self, module, args, out):
        if self.noise is not None:
            places, vectors = self.noise
            out[:, places] += vectors * getattr(module, "embed_scale", 1.0)  # Gemma scales after the noise
        return out

    def restore(self, layer, out):
        stream = out[0] if isinstance(out, tuple) else out
        if self.noise is None:
            self.clean[layer] = stream[0].clone()
        elif self.place is not None:
            stream[layer, self.place] = self.clean[layer][self.place]  # row L of the batch has layer L restored
        return out

    def preferences(self, requests, n_rows):
        """b_AAE of every row: the log-probability of the first continuation less that of the second."""
        sums = []
        for prompt, continuation in requests:
            with torch.inference_mode():
                logits = self.model.network(torch.tensor([prompt + continuation] * n_rows), use_cache=False).logits
            rows = logits[:, len(prompt) - 1 : -1].double().log_softmax(-1)
            sums.append(rows[:, torch.arange(len(continuation)), torch.tensor(continuation)].sum(1))
        return (sums[0] - sums[1]).tolist()

    def trace(self, context, requests, places):
        weights = self.model.network.get_input_embeddings().weight
        embeddings = weights[torch.tensor(requests[0][0])[places]].double()
        sigma = NOISE_FACTOR * embeddings.std(correction=0).item()
        seed = fnv1a(f"{SEED}/{context}")
        vectors = [[np.float32(sigma) * np.float32(gaussian(seed, k, i)) for i in range(embeddings.shape[1])] for k in range(len(places))]
        self.noise, self.place = None, None
        clean = self.preferences(requests, 1)[0]
        self.noise = (places, torch.tensor(np.array(vectors, dtype=np.float32)))
        corrupted = self.preferences(requests, 1)[0]
        by_place = []
        for self.place in places:
            by_place.append([corrupted - b for b in self.preferences(requests, len(self.model.layers))])
        effects = [list(layer) for layer in zip(*by_place)]
        return {"sigma": sigma, "positions": places, "clean": clean, "corrupted": corrupted, "effects": effects}


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(v) for key, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return round(value, 6) if isinstance(value, float) else value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL-f32.gguf")
    parser.add_argument("pairs", metavar="dialect_pairs.jsonl")
    parser.add_argument("lexicon", metavar="lexicon.tsv")
    parser.add_argument("out", metavar="OUT.json")
    args = parser.parse_args()

    tracer, markers, examples = Tracer(Model(args.model)), read_markers(args.lexicon), []
    with open(args.pairs, encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            context, continuations = row["aae_context"], (row["aae_continuation"], row["sae_continuation"])
            places = marker_tokens(tracer.model, context, markers)
            if not places or continuations[0] == continuations[1]:
                continue
            requests = [tracer.model.split(context, " " + continuation) for continuation in continuations]
            examples.append({"id": row["id"], **tracer.trace(context, requests, places)})
    layers = [sum(sum(e["effects"][layer]) / len(e["positions"]) for e in examples) / len(examples)
              for layer in range(len(tracer.model.layers))]
    with open(args.out, "w") as out:
        json.dump(rounded({
            "about": "causal tracing by transformers; made by dialect_trace.py", "model_sha256": file_sha256(args.model),
            "pairs_sha256": file_sha256(args.pairs), "torch": torch.__version__, "seed": SEED, "layers": layers,
            "examples": examples,
        }), out)
        out.write("\n")


if __name__ == "__main__":
    main()
