#!/usr/bin/env bash
# Every method on one model and BBQ's Age: the rows of the GCD paper's Table 2, with placebos and a strength of zero, and of
# its Table 15, GCD, its ablations, the contrast and a placebo at seven layers. All of it is evaluated on templates that nothing
# was fitted on, in one pass.
#
#     examples/directions.sh MODEL LAYER LAYERS DATA OUT [OPTION…]
#
#     examples/directions.sh smollm2 19 10,13,16,19,22,25,28 data directions-smollm2    # after plumb model fetch smollm2
#     examples/directions.sh gemma3  12 6,8,10,12,14,15,16 data directions-gemma3
#
# MODEL is a GGUF file or a short name; LAYER is Table 2's, one of Table 15's LAYERS. DATA holds bbq/Age.jsonl. Everything goes
# into OUT. An OPTION goes to every command that opens the model, such as --threads 1. ITEMS, 500 if it is not set, are drawn
# from the data.
set -euo pipefail

model=$1 layer=$2 layers=$3 data=$4 out=$5
shift 5
plumb=${PLUMB:-bin/plumb}
on=(--model "$model" --data "$data/bbq/Age.jsonl" --sample "${ITEMS:-500}" --seed 1 "$@")

"$plumb" steer fit "${on[@]}" --method all --layer "$layers" --out "$out/directions"

files() { sed "s|[^,]*|\"directions/&.gguf\"|g" <<<"$1"; }
cat >"$out/table-2.json" <<END
{"steer": [$(files contrast,stratified,projected,pca,gcd,gcd-stereotype,gcd-anti,gcd-nothing,random,random-orthogonal)],
 "layers": [$layer], "strengths": [8]}
END
cat >"$out/zero.json" <<END
{"steer": [$(files gcd)], "layers": [$layer], "strengths": [0]}
END
cat >"$out/table-15.json" <<END
{"steer": [$(files gcd,contrast,random-orthogonal,gcd-stereotype,gcd-anti,gcd-nothing)], "layers": [$layers], "strengths": [8]}
END
"$plumb" audit bbq "${on[@]}" --grid "$out/table-2.json" --grid "$out/zero.json" --grid "$out/table-15.json" --resume --out "$out/audit"
"$plumb" compare "$out/audit" --html "$out/compare.html" --csv >"$out/compare.csv"
"$plumb" steer inspect "$out"/directions/*.gguf
