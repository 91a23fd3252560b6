"""Loads a GGUF file into Hugging Face transformers, in float32, with eager attention, and tokenises as Plumb does."""

import os
from functools import cached_property

import gguf
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


class Model:
    def __init__(self, path, attention="eager"):
        folder, file = os.path.split(os.path.abspath(path))
        self.network = AutoModelForCausalLM.from_pretrained(
            folder, gguf_file=file, dtype=torch.float32, attn_implementation=attention)
        self.network.eval()
        self.network.requires_grad_(False)
        self.path = path

    @cached_property
    def tokenizer(self):
        folder, file = os.path.split(os.path.abspath(self.path))
        return AutoTokenizer.from_pretrained(folder, gguf_file=file)

    @cached_property
    def bos(self):
        return bos_token(self.path)

    @property
    def layers(self):
        """The blocks; layer L, counted from 0, is the output of block L."""
        return self.network.model.layers

    def tokenize(self, text):
        """Tokens of the text; BOS once and only if the GGUF's add_bos_token asks for it; special tokens are not parsed."""
        tokens = self.tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids
        return self.bos + tokens

    def split(self, prompt, continuation):
        """Tokens of prompt + continuation, cut where the prompt ends. An error where a token straddles that place."""
        prompt_tokens = self.tokenize(prompt)
        tokens = self.tokenize(prompt + continuation)
        n = len(prompt_tokens)
        if tokens[:n] != prompt_tokens or len(tokens) == n:
            raise ValueError(f"no token ends where the prompt ends: {prompt[-20:]!r} + {continuation!r}")
        return prompt_tokens, tokens[n:]


def bos_token(path):
    """[BOS] if the model asks for it, else []."""
    fields = gguf.GGUFReader(path).fields
    asked = fields.get("tokenizer.ggml.add_bos_token")
    if asked is None:
        raise ValueError(f"{path} does not say whether it wants BOS (tokenizer.ggml.add_bos_token)")
    return [int(fields["tokenizer.ggml.bos_token_id"].contents())] if asked.contents() else []
