#!/usr/bin/env bash
# The audit protocol on one model, for BBQ's categories Age and Religion, from the first audit to the verdict.
#
#     examples/protocol.sh MODEL LAYERS DATA OUT [OPTION…]
#
#     examples/protocol.sh smollm2 19,24 data protocol-smollm2    # after plumb model fetch smollm2
#     examples/protocol.sh gemma3  12,15 data protocol-gemma3
#
# MODEL is a GGUF file or a short name, LAYERS are where directions are fitted. DATA holds bbq/Age.jsonl, bbq/Religion.jsonl,
# mmlu and wikitext2/wiki.test.raw, as published. Everything goes into OUT. An OPTION goes to every command that opens the
# model, such as --threads 1. ITEMS, 200 if it is not set, are drawn from the data; one half is fitted on, the other held out.
# What was cut is taken up by the same command.
set -euo pipefail

model=$1 layers=$2 data=$3 out=$4
shift 4
plumb=${PLUMB:-bin/plumb}
items=${ITEMS:-200}
on=(--model "$model" --data "$data/bbq/Age.jsonl" --data "$data/bbq/Religion.jsonl" --seed 1 "$@")
cost=(--mmlu "$data/mmlu" --first 100 --wikitext "$data/wikitext2/wiki.test.raw" --segments 20)

# gate says no by status 3, which is a result and no failure
verdict() { "$plumb" gate "$1" || [ $? -eq 3 ]; }

echo '== Baseline'
"$plumb" audit bbq "${on[@]}" --sample "$items" --resume --out "$out/base"

echo '== Directions, of both categories together and of each alone; a random one, to see it rejected'
"$plumb" steer fit "${on[@]}" --sample "$items" --layer "$layers" --pooled --method contrast,gcd,random --out "$out/directions"
"$plumb" steer fit "${on[@]}" --sample "$items" --layer "$layers" --method contrast,gcd --out "$out/by-category"

echo '== Sweep: the grid on the fit half, the selected intervention and its controls on the other, the cost'
"$plumb" steer sweep "${on[@]}" --sample "$items" --steer "$out/directions/contrast.gguf" --steer "$out/directions/gcd.gguf" \
	--alpha 2,4,8 --oracle --prompt-only --wording --out-of-domain "$out/by-category" "${cost[@]}" --resume --out "$out/sweep"
verdict "$out/sweep"

echo '== The random direction in the place of a fitted one'
"$plumb" steer sweep "${on[@]}" --sample "$items" --steer "$out/directions/random.gguf" \
	--layer "${layers##*,}" --alpha 8 "${cost[@]}" --resume --out "$out/random"
verdict "$out/random"
