#!/usr/bin/env bash
# Dialect on one model, from the first audit to the strength that is chosen: the built-in triplets, then ReDial's pairs of at
# most 60 words.
#
#     examples/dialect.sh MODEL REDIAL OUT [OPTION…]
#
#     examples/dialect.sh smollm2 data/aae_pairs/redial_pairs.tsv dialect-smollm2    # after plumb model fetch smollm2
#     examples/dialect.sh gemma3  data/aae_pairs/redial_pairs.tsv dialect-gemma3
#
# MODEL is a GGUF file or a short name. REDIAL is a file of lines with a task's name, an SAE prompt and its AAE rewrite, with
# tabs between them. Everything goes into OUT. An OPTION goes to every command, such as --threads 1. Of the pairs, 16 are
# traced, 64 fitted on and 64 (of the built-in ones 30) audited; BETAS, 0,0.2,0.4 if it is not set, are the strengths, in
# units of the residual stream's norm. What was cut is taken up by the same command.
set -euo pipefail

model=$1 redial=$2 out=$3
shift 3
plumb=${PLUMB:-bin/plumb}
betas=${BETAS:-0,0.2,0.4}

# sequence DIR SIZES DATA… audits, traces, fits, sweeps and reports
sequence() {
	local dir=$1 data=(--model "$model" "${@:3}") parts=(--split-sizes "$2" --split-seed 1)
	# the audit is the unsteered run of the sweep
	"$plumb" audit dialect "${data[@]}" "${parts[@]}" --split evaluation --wording best --resume --out "$dir/sweep/base"
	"$plumb" steer trace "${data[@]}" "${parts[@]}" --resume --out "$dir/trace"
	"$plumb" steer fit "${data[@]}" "${parts[@]}" --method dialect --trace "$dir/trace" --residual-norms --out "$dir/steer"
	"$plumb" steer sweep dialect "${data[@]}" --steer "$dir/steer/dialect.gguf" --beta "$betas" --resume --out "$dir/sweep"
	"$plumb" report --markdown "$dir/sweep" >"$dir/sweep.md"
}

mkdir -p "$out"
echo '== Built-in triplets'
sequence "$out/builtin" 16/64/30 "$@"

echo '== ReDial'
if [ ! -f "$out/redial.jsonl" ]; then
	awk -F'\t' 'split($2, sae, " ") <= 60 && split($3, aae, " ") <= 60' "$redial" >"$out/redial.tsv"
	"$plumb" corpus segment --model "$model" --data "$out/redial.tsv" --out "$out/redial.jsonl" "$@"
fi
sequence "$out/redial" 16/64/64 --data "$out/redial.jsonl" "$@"
