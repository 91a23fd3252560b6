#!/usr/bin/env python3
"""What the papers do in PyTorch, timed: the other side of `make bench`.

    peer.py MODEL-f32.gguf ITEMS.json

ITEMS.json holds a list of items, each with a "prompt" and three "options" as token ids, and the places of the biased, anti
and unknown option in "roles". Then one line of JSON is read from standard input for each measurement, and one is answered
on standard output, so that a runner can alternate with another program while both keep their model loaded:

    {"task": "score", "batch": 8}     score every option, one sequence an option, `batch` sequences at a time
    {"task": "gcd", "layer": 19}      three forward and backward passes an item, through the residual stream after a layer
    {"task": "contrast", "layer": 19} the residual stream after a layer at the last token of the biased and anti option

The answer has "seconds", "items", and "tokens", the number of tokens that went through the network without the padding.
"""

import json
import os
import sys
import time

import torch
import transformers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "reference"))
from hf_model import Model  # noqa: E402


def sequences(items):
    """(prompt length, tokens) of every option, the longest first, so that a batch has little padding."""
    all_options = [(len(item["prompt"]), item["prompt"] + option) for item in items for option in item["options"]]
    return sorted(all_options, key=lambda sequence: -len(sequence[1]))


def score(model, items, batch):
    """Mean log-probability of every option, by logits of the option's rows."""
    pending = sequences(items)
    means = []
    with torch.inference_mode():
        for start in range(0, len(pending), batch):
            chunk = pending[start : start + batch]
            width = len(chunk[0][1])
            tokens = torch.zeros(len(chunk), width, dtype=torch.long)
            mask = torch.zeros(len(chunk), width, dtype=torch.long)
            for row, (_, sequence) in enumerate(chunk):  # padding on the right: positions need no correction
                tokens[row, : len(sequence)] = torch.tensor(sequence)
                mask[row, : len(sequence)] = 1
            logits = model.network(tokens, attention_mask=mask if batch > 1 else None, use_cache=False).logits
            for row, (n_prompt, sequence) in enumerate(chunk):
                option = torch.tensor(sequence[n_prompt:])
                rows = logits[row, n_prompt - 1 : len(sequence) - 1].log_softmax(-1)
                means.append(rows.gather(1, option[:, None]).mean().item())
    return sum(len(sequence) for _, sequence in pending)


class FromLayer:
    """A hook that cuts autograd off below a layer's output, so that a backward pass ends there."""

    def __init__(self, model, layer):
        self.handle = model.layers[layer].register_forward_hook(self.cut)

    def cut(self, block, args, out):
        self.stream = out.detach().requires_grad_()
        return self.stream

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.handle.remove()


def gcd(model, items, layer):
    """The gradient of every option's mean raw logit at the last prompt token (GCD, appendix H)."""
    n_tokens = 0
    with FromLayer(model, layer) as hook:
        for item in items:
            for option in item["options"]:
                prompt = item["prompt"]
                logits = model.network(torch.tensor([prompt + option]), use_cache=False).logits[0]
                logits[len(prompt) - 1 : -1].gather(1, torch.tensor(option)[:, None]).mean().backward()
                assert hook.stream.grad[0, len(prompt) - 1].isfinite().all()
                n_tokens += len(prompt) + len(option)
    return n_tokens


def contrast(model, items, layer):
    """The mean difference of the residual stream between biased and anti option (GCD, appendix H)."""
    n_tokens = 0
    total = 0
    with FromLayer(model, layer) as hook, torch.inference_mode():
        for item in items:
            for role, sign in (("biased", 1), ("anti", -1)):
                sequence = item["prompt"] + item["options"][item["roles"].index(role)]
                model.network(torch.tensor([sequence]), use_cache=False, logits_to_keep=1)
                total = total + sign * hook.stream[0, -1]
                n_tokens += len(sequence)
    return n_tokens


TASKS = {"score": score, "gcd": gcd, "contrast": contrast}


def main(model_path, items_path):
    with open(items_path) as file:
        items = json.load(file)
    torch.set_num_threads(os.cpu_count())
    model = Model(model_path, attention="sdpa")
    ready = {"ready": True, "torch": torch.__version__, "transformers": transformers.__version__}
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        task = TASKS[request.pop("task")]
        start = time.perf_counter()
        n_tokens = task(model, items, **request)
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "items": len(items), "tokens": n_tokens}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
