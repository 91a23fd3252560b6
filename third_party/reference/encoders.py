#!/usr/bin/env python3
"""What transformers computes with encoder models, and those models as GGUF files of llama.cpp's own converter.

    encoders.py tiny                 writes encoder_bert.gguf and encoder_roberta.gguf, random models of a few kilobytes for
                                     sequence classification, and encoders.json, their token embeddings and logits
    encoders.py model FOLDER NAME    converts the model in Hugging Face's FOLDER to NAME.gguf in the working folder, and
                                     writes encoder_NAME.json here, its token embeddings at six components
"""

import base64
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (AutoModel, AutoTokenizer, BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast,
                          RobertaConfig, RobertaForSequenceClassification)

HERE = Path(__file__).resolve().parent
TEXTS = [
    "she be workin late every night",
    "He don’t know NOBODY, naïve café!",
    "ok😂😂 lol 你好 ok",
    "two  spaces\tand a\nline",
    "supercalifragilistic finna-go 1,234 @home #tag",
    "I",
]
LABELS = ["negative", "neutral", "positive"]


def converter():
    source = subprocess.run([HERE.parent / "fetch.py", "llama.cpp"], check=True, capture_output=True, text=True).stdout
    sys.path[:0] = [source.strip(), source.strip() + "/gguf-py"]
    import convert_hf_to_gguf
    from conversion.base import TextModel

    return convert_hf_to_gguf, TextModel


def convert(folder, out, pre_tokenizer=None):
    program, text_model = converter()
    if pre_tokenizer:  # the converter knows a tokenizer by what it makes of one text, and not one made here
        text_model.get_vocab_base_pre = lambda self, tokenizer: pre_tokenizer
    sys.argv = ["convert_hf_to_gguf.py", str(folder), "--outfile", str(out), "--outtype", "f32"]
    program.main()


def words_of(text, offsets):
    """The word, between white space, that the first letter of each token is in; -1 for none."""
    word_at = [-1] * len(text)
    for i, match in enumerate(re.finditer(r"\S+", text)):
        word_at[match.start():match.end()] = [i] * (match.end() - match.start())
    return [next((word_at[k] for k in range(start, end) if word_at[k] >= 0), -1) for start, end in offsets]


def encode(array):
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode()


def reference(tokenizer, encoder, classifier=None, columns=None):
    items = []
    for text in TEXTS:
        read = tokenizer(text, return_offsets_mapping=True)
        special = tokenizer.get_special_tokens_mask(read.input_ids, already_has_special_tokens=True)
        first, end = special.index(0), len(special) - special[::-1].index(0)
        tokens = torch.tensor([read.input_ids])
        with torch.no_grad():
            states = encoder(tokens).last_hidden_state[0].numpy()
            logits = classifier(tokens).logits[0].tolist() if classifier else None
        items.append({
            "text": text, "tokens": read.input_ids, "first": 1, "end": len(read.input_ids) - 1,
            "words": words_of(text, read.offset_mapping[1:-1]),
            "states": encode(states if columns is None else states[:, columns]), "logits": logits,
        })
        assert first >= 1 and end <= len(read.input_ids) - 1
    return items


def sentences():
    builtin = HERE.parent.parent / "audit" / "dialect" / "builtin.jsonl"
    for line in builtin.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield from (row["aae"], row["sae"])


def tiny_bert():
    raw = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    raw.normalizer = normalizers.BertNormalizer(lowercase=True)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    raw.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    raw.train_from_iterator(sentences(), trainers.WordPieceTrainer(vocab_size=200, special_tokens=special))
    raw.post_processor = processors.BertProcessing(("[SEP]", raw.token_to_id("[SEP]")), ("[CLS]", raw.token_to_id("[CLS]")))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
                                        sep_token="[SEP]", mask_token="[MASK]")
    config = BertConfig(vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=32, max_position_embeddings=64, initializer_range=0.3,
                        id2label=dict(enumerate(LABELS)), label2id={label: i for i, label in enumerate(LABELS)})
    return tokenizer, BertForSequenceClassification(config), "jina-v2-en"


def tiny_roberta():
    raw = Tokenizer(models.BPE(unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    raw.train_from_iterator(sentences(), trainers.BpeTrainer(
        vocab_size=340, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    raw.post_processor = processors.RobertaProcessing(("</s>", raw.token_to_id("</s>")), ("<s>", raw.token_to_id("<s>")),
                                                      trim_offsets=True, add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>", pad_token="<pad>",
                                        unk_token="<unk>", cls_token="<s>", sep_token="</s>", mask_token="<mask>")
    config = RobertaConfig(vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                           intermediate_size=32, max_position_embeddings=66, type_vocab_size=1, initializer_range=0.3,
                           pad_token_id=1, bos_token_id=0, eos_token_id=2,
                           id2label=dict(enumerate(LABELS)), label2id={label: i for i, label in enumerate(LABELS)})
    return tokenizer, RobertaForSequenceClassification(config), "roberta-bpe"


def tiny():
    torch.manual_seed(0)
    result = {}
    for name, make in (("bert", tiny_bert), ("roberta", tiny_roberta)):
        tokenizer, model, pre_tokenizer = make()
        with torch.no_grad():  # the biases and norms that training would have moved
            for parameter in model.parameters():
                if parameter.dim() == 1:
                    parameter += 0.1 * torch.randn_like(parameter)
        model.eval()
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            convert(folder, HERE / f"encoder_{name}.gguf", pre_tokenizer)
        result[name] = reference(tokenizer, getattr(model, name), model)
    (HERE / "encoders.json").write_text(json.dumps(result, indent=1) + "\n")


def real(folder, name):
    convert(folder, f"{name}.gguf")
    encoder = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    columns = np.linspace(0, encoder.config.hidden_size - 1, 6).astype(int).tolist()
    items = reference(AutoTokenizer.from_pretrained(folder), encoder, columns=columns)
    (HERE / f"encoder_{name}.json").write_text(json.dumps({"columns": columns, "items": items}, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["tiny"]:
        tiny()
    elif sys.argv[1:2] == ["model"] and len(sys.argv) == 4:
        real(*sys.argv[2:])
    else:
        sys.exit(__doc__)
