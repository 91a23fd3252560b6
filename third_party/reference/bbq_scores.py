#!/usr/bin/env python3
"""Scores the options of real BBQ items with Hugging Face transformers, as reference values for Plumb's scores.

Every 17th item of Age.jsonl, 200 of them (an odd step, since the four items of a context alternate in condition and
polarity). One sequence an option, alone in its batch, in float32 with eager attention, on the weights of an F32 GGUF file
made by f32.py. The output holds none of the data set: an item is named by its id, its tokens are counted and hashed.

    bbq_scores.py MODEL-f32.gguf Age.jsonl OUT.json
"""

import argparse
import hashlib
import json
import os
import struct

import torch

import bbq
from hf_model import Model

STEP, COUNT = 17, 200


def score(model, prompt_tokens, option_tokens):
    """Log-probability of each option token after what stands before it."""
    sequence = prompt_tokens + option_tokens
    with torch.inference_mode():
        logits = model.network(torch.tensor([sequence])).logits[0]
    rows = logits[len(prompt_tokens) - 1 : -1].double().log_softmax(-1)
    return rows[torch.arange(len(option_tokens)), torch.tensor(option_tokens)].tolist()


def hash_of(tokens):
    """SHA-256 of the tokens as little-endian 32-bit integers."""
    return hashlib.sha256(struct.pack(f"<{len(tokens)}i", *tokens)).hexdigest()


def score_option(model, item, continuation):
    prompt_tokens, option_tokens = model.split(item.prompt, continuation)
    logprobs = [float(f"{p:.7g}") for p in score(model, prompt_tokens, option_tokens)]
    return {"prompt_tokens": len(prompt_tokens), "sha256": hash_of(prompt_tokens + option_tokens), "logprobs": logprobs}


def file_sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL-f32.gguf")
    parser.add_argument("data", metavar="Age.jsonl")
    parser.add_argument("out", metavar="OUT.json")
    args = parser.parse_args()

    model = Model(args.model)
    items = bbq.read(args.data)[::STEP][:COUNT]
    lines = []
    for item in items:
        options = [score_option(model, item, continuation) for continuation in item.continuations]
        lines.append(json.dumps({"id": item.id, "options": options}))
    head = {
        "about": "option log-probabilities by transformers; made by bbq_scores.py",
        "model_sha256": file_sha256(args.model),
        "data": os.path.basename(args.data),
        "data_sha256": file_sha256(args.data),
        "torch": torch.__version__,
    }
    with open(args.out, "w") as out:
        out.write(json.dumps(head, indent=1)[:-2] + ',\n "items": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n")


if __name__ == "__main__":
    main()
