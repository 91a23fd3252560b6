"""Writes bertscore.json: what the package bert-score makes of random embeddings (greedy_cos_idf, get_idf_dict).

    python bertscore.py > bertscore.json
"""

import json
import sys
from importlib.metadata import version

import torch
from bert_score.utils import get_idf_dict, greedy_cos_idf

torch.manual_seed(0)
WIDTH = 8


def case(candidate_length, reference_length, weighted, shared):
    candidate = torch.randn(candidate_length, WIDTH)
    reference = torch.randn(reference_length, WIDTH)
    same = min(shared, candidate_length, reference_length)
    reference[:same] = candidate[:same] + 0.1 * torch.randn(same, WIDTH)
    weights = [torch.rand(n) + 0.1 if weighted else torch.ones(n) for n in (candidate_length, reference_length)]
    for w in weights:  # special tokens stand first and last
        w[0] = w[-1] = 0
    masks = [torch.ones(1, n) for n in (candidate_length, reference_length)]
    p, r, f = greedy_cos_idf(
        reference[None].clone(), masks[1], weights[1][None], candidate[None].clone(), masks[0], weights[0][None]
    )
    return {
        "candidate": {"vectors": candidate.tolist(), "weights": weights[0].tolist()},
        "reference": {"vectors": reference.tolist(), "weights": weights[1].tolist()},
        "precision": p.item(),
        "recall": r.item(),
        "f1": f.item(),
    }


class Words:
    """A tokenizer whose tokens are the numbers in a text."""

    def encode(self, text, **_):
        return [int(word) for word in text.split()]


def idf():
    texts = ["1 2 3 2", "2 3", "3 3 4", "5"]
    import bert_score.utils as utils

    utils.sent_encode = lambda tokenizer, text: tokenizer.encode(text)
    values = get_idf_dict(texts, Words(), nthreads=1)
    return {
        "texts": [Words().encode(text) for text in texts],
        "tokens": [1, 2, 3, 4, 5, 6],
        "want": [values[token] for token in [1, 2, 3, 4, 5, 6]],
    }


json.dump(
    {
        "made_with": "bert-score " + version("bert-score") + ", torch " + torch.__version__,
        "cases": [
            case(5, 7, False, 0),
            case(7, 5, False, 4),
            case(12, 12, False, 12),
            case(9, 6, True, 5),
            case(4, 20, True, 2),
            case(3, 3, True, 3),
        ],
        "idf": idf(),
    },
    sys.stdout,
    separators=(",", ":"),
)
