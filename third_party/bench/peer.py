#!/usr/bin/env python3
"""What the papers do in PyTorch, timed: the other side of `make bench`.

    peer.py MODEL-f32.gguf ITEMS.json

ITEMS.json holds "items", each with a "prompt" and three "options" as token ids, and the places of the biased, anti and
unknown option in "roles"; "pairs" of sentences as contexts with two options each; and a "traced" context with the places of
its marker's tokens in "markers". Then one line of JSON is read from standard input for each measurement, and one is answered
on standard output, so that a runner can alternate with another program while both keep their model loaded:

    {"task": "score", "batch": 8}     score every option, one sequence an option, `batch` sequences at a time
    {"task": "pairs", "batch": 8}     the same of the pairs, four sequences a pair
    {"task": "trace", "batch": 8}     causal tracing of the traced context, `batch` sites at a time; 0: as rome does
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


class Corrupting:
    """Hooks that add noise to the embeddings at some tokens and restore clean states, a layer and token for every site.

    A site has a group of rows in the batch: those of the clean run, if they are computed again for every site, and those
    that are corrupted.
    """

    def __init__(self, model, places, noise, n_sequences):
        self.places, self.noise, self.n_sequences = places, noise, n_sequences
        self.sites = []  # (layer, token), one a group
        self.clean_rows = True
        self.kept = [None] * len(model.layers)  # of the clean run: [sequences, tokens, width] of each layer
        modules = [model.network.get_input_embeddings(), *model.layers]
        self.handles = [m.register_forward_hook(self.corrupt if i == 0 else self.restore(i - 1)) for i, m in enumerate(modules)]

    def groups(self, out):
        """Clean rows (or none) and corrupted rows of every site."""
        groups = out.view(max(1, len(self.sites)), -1, *out.shape[1:])
        n_clean = self.n_sequences if self.clean_rows else 0
        return groups[:, :n_clean], groups[:, n_clean:]

    def corrupt(self, module, args, out):
        self.groups(out)[1][:, :, self.places] += self.noise
        return out

    def restore(self, layer):
        def hook(module, args, out):
            clean, corrupted = self.groups(out)
            if not self.sites:
                self.kept[layer] = clean[0].clone()
            for i, (at, token) in enumerate(self.sites):
                if at == layer:
                    corrupted[i, :, token] = (clean[i] if self.clean_rows else self.kept[layer])[:, token]
            return out
        return hook

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for handle in self.handles:
            handle.remove()


def trace(model, example, places, batch):
    """The preference of one continuation to the other, with noise, and with every layer restored at each of the places.

    A batch of 0 is what rome's trace_with_patch does (Meng et al. 2022): a forward pass a site, clean rows beside corrupted
    ones. Otherwise it is that many sites a pass, and the clean states are kept.
    """
    prompt, options = example["prompt"], example["options"]
    width = len(prompt) + max(map(len, options))
    tokens = torch.zeros(len(options), width, dtype=torch.long)
    mask = torch.zeros(len(options), width, dtype=torch.long)
    for row, option in enumerate(options):  # padding on the right
        tokens[row, : len(prompt) + len(option)] = torch.tensor(prompt + option)
        mask[row, : len(prompt) + len(option)] = 1
    targets = tokens[:, len(prompt) :, None]

    def preferences(hooks):
        times = max(1, len(hooks.sites)) * (2 if hooks.clean_rows else 1)
        logits = model.network(tokens.repeat(times, 1), attention_mask=mask.repeat(times, 1), use_cache=False).logits
        rows = hooks.groups(logits)[1][:, :, len(prompt) - 1 : -1].log_softmax(-1)
        sums = (rows.gather(3, targets.expand(len(rows), -1, -1, -1))[..., 0] * mask[:, len(prompt) :]).sum(2)
        return (sums[:, 0] - sums[:, 1]).tolist()

    sites = [(layer, token) for layer in range(len(model.layers)) for token in places]
    noise = 0.3 * torch.randn(len(places), model.network.config.hidden_size)
    with Corrupting(model, places, noise, len(options)) as hooks, torch.inference_mode():
        preferences(hooks)  # the clean run and the corrupted one
        hooks.clean_rows = batch == 0
        step = max(1, batch)
        for start in range(0, len(sites), step):
            hooks.sites = sites[start : start + step]
            preferences(hooks)
    return len(sites), len(sites) * len(options) * width


def on_items(task):
    return lambda model, samples, **how: (len(samples["items"]), task(model, samples["items"], **how))


TASKS = {
    "score": on_items(score), "gcd": on_items(gcd), "contrast": on_items(contrast),
    "pairs": lambda model, samples, batch: (len(samples["pairs"]) // 2, score(model, samples["pairs"], batch)),
    "trace": lambda model, samples, batch: trace(model, samples["traced"], samples["markers"], batch),
}


def main(model_path, items_path):
    with open(items_path) as file:
        samples = json.load(file)
    torch.set_num_threads(os.cpu_count())
    model = Model(model_path, attention="sdpa")
    ready = {"ready": True, "torch": torch.__version__, "transformers": transformers.__version__}
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        task = TASKS[request.pop("task")]
        start = time.perf_counter()
        n_items, n_tokens = task(model, samples, **request)
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "items": n_items, "tokens": n_tokens}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
