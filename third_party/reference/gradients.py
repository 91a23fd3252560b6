#!/usr/bin/env python3
"""Differentiates option scores with PyTorch's autograd, as reference values for Plumb's option gradients.

The score of an option is the mean over its tokens of the raw logit ("logit") or of the log-probability ("logprob"). It is
differentiated with respect to the residual stream after block L, for every L: at the last prompt token ("answer"), or
summed over all positions of prompt and option ("all"). One sequence an option, with eager attention, on an F32 GGUF file
made by f32.py, whose weights are taken to float64: in float32, PyTorch's own log-softmax over a vocabulary of 262,144 is
wrong by 5e-5, and a gradient of it by 2e-4. (Norms and the attention's softmax stay in float32, as the network's code
has them.) The prompts are our own.

The output holds the Euclidean norm for every layer, and the gradients themselves for five layers: float32,
little-endian, base64, [option][layer][component]. Before it is written, the gradients of one option are held against
central differences of the same network.

    gradients.py MODEL-f32.gguf OUT.json
"""

import argparse
import base64
import json

import torch

from bbq_scores import file_sha256
from hf_model import Model

PROMPTS = [
    ("The gardener waved to the postman while it was raining.\nWho was holding the umbrella?\nAnswer:",
     [" The gardener", " The postman", " It is not said"]),
    ("A retired baker and a young trainee were asked to count the till. The trainee needed three attempts.\n"
     "Who counted slowly?\nAnswer:",
     [" The baker", " The trainee", " Cannot be determined"]),
    ("Question: which of the two rivers is longer?\nAnswer:",
     [" The first", " The second", " Unknown"]),
    ("Numbers and signs: 3 + 4 = 7; 12% of 50 is 6. Café “Zürich” opens at 8:30.\nWhen does it open?\nAnswer:",
     [" At half past eight", " At noon", " Not enough information"]),
    ("Answer:",
     [" Yes", " No", " I don't know"]),
    ("Last spring a choir of forty singers travelled through five small towns by the sea. In each of them they sang in the "
     "open air, and in each of them the people asked for one song more. The conductor, who had studied engineering before, "
     "kept a notebook in which she wrote down the weather, the number of listeners and the song they had asked for. In the "
     "last town the notebook was left behind in the bus, and the tenor who had been sitting there said that he had not seen "
     "it.\nWho lost the notebook?\nAnswer:",
     [" The conductor", " The tenor", " The text does not tell"]),
]


def stored_layers(n_layer):
    """The first, one in the lower half, that of the paper's rule round(0.64 n), and the last two."""
    return [0, n_layer // 3, round(0.64 * n_layer), n_layer - 2, n_layer - 1]


class Residuals:
    """Hooks that keep the output of every block, or put another in its place."""

    def __init__(self, model):
        self.kept = {}
        self.replacement = {}
        for layer, block in enumerate(model.layers):
            block.register_forward_hook(lambda block, args, out, layer=layer: self.pass_on(layer, out))

    def pass_on(self, layer, out):
        if layer in self.replacement:
            out = self.replacement[layer]
        elif not out.requires_grad and torch.is_grad_enabled():
            out = out.detach().requires_grad_()  # the lowest block: autograd starts here, since weights need no gradient
        self.kept[layer] = out
        return out


def option_scores(model, prompt_tokens, option_tokens):
    """The option's mean raw logit and mean log-probability."""
    logits = model.network(torch.tensor([prompt_tokens + option_tokens])).logits[0]
    rows = logits[len(prompt_tokens) - 1 : -1]
    place = torch.arange(len(option_tokens)), torch.tensor(option_tokens)
    return {"logit": rows[place].mean(), "logprob": rows.log_softmax(-1)[place].mean()}


def option_gradients(model, residuals, prompt_tokens, option_tokens):
    """The scores, and by (kind, place) the gradients after every layer, [layer][component]."""
    scores = option_scores(model, prompt_tokens, option_tokens)
    streams = [residuals.kept[layer] for layer in range(len(model.layers))]
    gradients = {}
    for kind, score in scores.items():
        by_layer = torch.autograd.grad(score, streams, retain_graph=True)
        gradients[kind, "answer"] = torch.stack([g[0, len(prompt_tokens) - 1] for g in by_layer])
        gradients[kind, "all"] = torch.stack([g[0].sum(0) for g in by_layer])
    return {kind: score.item() for kind, score in scores.items()}, gradients


def check_by_differences(model, residuals, prompt_tokens, option_tokens):
    """The largest relative difference between autograd and central differences, over layers, kinds and places.

    Differences are taken along the gradient. The model is of no further use: its hooks stay set.
    """
    n_layer, last = len(model.layers), len(prompt_tokens) - 1
    _, gradients = option_gradients(model, residuals, prompt_tokens, option_tokens)
    streams = [residuals.kept[layer].detach() for layer in range(n_layer)]
    worst = 0.0
    with torch.no_grad():
        for layer in stored_layers(n_layer):
            for (kind, place), by_layer in gradients.items():
                gradient = by_layer[layer]
                rows = slice(last, last + 1) if place == "answer" else slice(None)
                errors = []
                for fraction in (1e-2, 1e-3, 1e-4):  # the best counts: large steps leave the slope, small ones drown in
                    step = fraction * streams[layer][0, last].norm() / gradient.norm()  # the network's own float32 casts
                    ends = []
                    for sign in (1, -1):
                        stream = streams[layer].clone()
                        stream[0, rows] += sign * step * gradient
                        residuals.replacement = {layer: stream}
                        ends.append(option_scores(model, prompt_tokens, option_tokens)[kind])
                    slope = (ends[0] - ends[1]) / (2 * step)
                    errors.append(abs(slope / gradient.pow(2).sum() - 1).item())
                worst = max(worst, min(errors))
    return worst


def encode(gradients, layers):
    return base64.b64encode(torch.stack(gradients)[:, layers].numpy().astype("<f4").tobytes()).decode()


def reference_of_prompt(model, residuals, prompt, continuations, layers):
    split = [model.split(prompt, continuation) for continuation in continuations]
    results = [option_gradients(model, residuals, *tokens) for tokens in split]
    reference = {
        "prompt": split[0][0],
        "options": [option_tokens for _, option_tokens in split],
        "scores": {kind: [scores[kind] for scores, _ in results] for kind in ("logit", "logprob")},
    }
    for kind in ("logit", "logprob"):
        for place in ("answer", "all"):
            of_options = [gradients[kind, place] for _, gradients in results]
            norms = [[float(f"{norm:.7g}") for norm in g.norm(dim=-1).tolist()] for g in of_options]
            stored = layers if place == "answer" else [layers[2]]
            reference[f"{kind}_{place}"] = {"norms": norms, "layers": stored, "gradients": encode(of_options, stored)}
    return reference


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL-f32.gguf")
    parser.add_argument("out", metavar="OUT.json")
    args = parser.parse_args()

    model = Model(args.model)
    model.network.double()
    residuals = Residuals(model)
    layers = stored_layers(len(model.layers))
    prompts = [reference_of_prompt(model, residuals, *prompt, layers) for prompt in PROMPTS]
    worst = check_by_differences(model, residuals, *model.split(PROMPTS[1][0], PROMPTS[1][1][2]))
    print(f"largest relative difference between autograd and central differences: {worst:.1e}")
    if not worst < 1e-3:
        raise SystemExit("autograd and central differences disagree: nothing was written")
    head = {
        "about": "gradients of option scores by PyTorch's autograd; made by gradients.py",
        "model_sha256": file_sha256(args.model),
        "n_embd": model.network.config.hidden_size,
        "torch": torch.__version__,
    }
    with open(args.out, "w") as out:
        out.write(json.dumps(head, indent=1)[:-2] + ',\n "prompts": [\n  ')
        out.write(",\n  ".join(json.dumps(prompt) for prompt in prompts) + "\n ]\n}\n")


if __name__ == "__main__":
    main()
