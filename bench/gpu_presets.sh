#!/usr/bin/env bash
# Settings of MaRC compared on an accelerator, on validation and on test reviews. Each part ends at its time limit, so a
# slow machine leaves variants out; look into the logs for what was run.
# usage: bench/gpu_presets.sh DATA OUT
set -u
data=$1 out=$2
run() { timeout "$1" python3 bench/presets.py --data "$data" --device cuda --tf32 "${@:3}" --out "$out/$2.json" 2>"$out/$2.log" | tee "$out/$2.txt"; }
val='{"sweep":{"steps":80},
"floor 0":{"floor":0.0},
"constant":{"schedule":"constant"},
"constant floor 0":{"schedule":"constant","floor":0.0},
"width 2.5":{"width":2.5},
"width 2.5 floor 0":{"width":2.5,"floor":0.0},
"sparsity 2":{"sparsity":2.0},
"quiet":{"noise":0.0,"flip":0.0},
"rate 0.2":{"rate":0.2},
"rate 0.2 floor 0":{"rate":0.2,"floor":0.0},
"steps 60":{"steps":60},
"floor 0.5":{"floor":0.5}}'
run 200 val-minilm --model minilm-reviews --split val --limit 100 --variants "$val"
run 240 test-minilm --model minilm-reviews --variants '{"default":{},"floor 0":{"floor":0.0},"constant floor 0":{"schedule":"constant","floor":0.0},"paper":{"preset":"paper"}}'
run 120 test-embedded --variants '{"default":{},"floor 0":{"floor":0.0},"paper":{"preset":"paper"}}'
