#!/usr/bin/env bash
# Runs one experiment for every point of a grid of settings, some at a time.
#
#   scripts/sweep.sh --config exp.yaml --grid optim.lr=1e-3,3e-4 --grid seed=1,2,3
#
#   --config FILE      the experiment file
#   --grid KEY=A,B,..  values of one setting; repeat it for more: every combination is run. Commas
#                      within brackets, braces or quotes are part of a value: [64,32],[128]
#   --set KEY=VALUE    a setting of every run; may be repeated
#   --gpus 0,1         one run at a time on each of these GPUs (CUDA_VISIBLE_DEVICES); default: the
#                      runs take whatever the experiment's `device` gives them
#   --jobs N           runs at once; with --gpus they are dealt out over the GPUs, default one for
#                      each GPU, else 1. Each gets its share of the CPUs as OMP_NUM_THREADS, unless
#                      that is set; runs on a CPU repeat to the bit with equal shares only
#   --output DIR       where the run folders go; default runs/sweep-NAME of the file's name
#   --metric KEY       the figure to sort by, from summary.json; default val/accuracy
#   --ascending        smallest first (for a loss)
#   --trainer PATH     the program; default $TRAINER, then bin/trainer or the launcher of a package,
#                      then build/release/bin/trainer
#   --dry-run          prints the commands and stops
#
# Each point is a folder of DIR named after its settings; DIR/logs holds what the runs printed.
# Running the same line again skips the points that are done and resumes the others where they
# stopped. A failing point does not stop the rest. Ctrl-C and SIGTERM reach the runs, which save
# before they end; a second one stops them at once. Exit code: 0 if all are done, 1 if any failed,
# 2 for a wrong command line, 130 or 143 if interrupted.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

config='' output='' metric=val/accuracy trainer=${TRAINER:-} jobs=''
ascending=false dry_run=false
grids=() settings=() gpus=()

while (($#)); do
  case $1 in
    --config | --grid | --set | --gpus | --jobs | --output | --metric | --trainer)
      need_value "$1" $#
      case $1 in
        --config) config=$2 ;;
        --grid) grids+=("$2") ;;
        --set) settings+=(--set "$2") ;;
        --gpus) IFS=, read -r -a gpus <<<"$2" ;;
        --jobs) jobs=$2 ;;
        --output) output=$2 ;;
        --metric) metric=$2 ;;
        --trainer) trainer=$2 ;;
      esac
      shift
      ;;
    --ascending) ascending=true ;;
    --dry-run) dry_run=true ;;
    -h | --help) usage && exit 0 ;;
    *) die 2 "unknown option $1; see --help" ;;
  esac
  shift
done

find_trainer() {
  local candidate
  for candidate in "$trainer" "$ROOT/trainer" "$ROOT/build/release/bin/trainer"; do
    if [[ -f "$candidate" && -x "$candidate" ]]; then
      printf '%s\n' "$candidate"
      return
    fi
    [[ -n "$trainer" ]] && die 2 "no program at $trainer"
  done
  die 2 "no trainer found: run scripts/build.sh release, or name it with --trainer"
}

check_command_line() {
  local grid gpu
  [[ -n "$config" ]] || die 2 "--config is missing; see --help"
  [[ -f "$config" ]] || die 2 "no experiment file at $config"
  ((${#grids[@]})) || die 2 "--grid is missing: which settings vary? see --help"
  for grid in "${grids[@]}"; do
    [[ "$grid" == ?*=?* ]] || die 2 "--grid $grid: expected KEY=VALUE,VALUE,..."
  done
  for gpu in "${gpus[@]}"; do
    [[ "$gpu" =~ ^[A-Za-z0-9-]+$ ]] || die 2 "--gpus: '$gpu' names no GPU"
  done
  [[ "$jobs" =~ ^([1-9][0-9]*)?$ ]] || die 2 "--jobs $jobs: expected a positive number"
}

# Prints the values of a comma-separated list, one a line; brackets and quotes keep theirs together.
split_values() {
  local text=$1 value='' quote='' depth=0 i c
  for ((i = 0; i < ${#text}; i++)); do
    c=${text:i:1}
    if [[ -n "$quote" ]]; then
      [[ "$c" == "$quote" ]] && quote=''
    else
      case $c in
        [\"\']) quote=$c ;;
        [\[\{]) depth=$((depth + 1)) ;;
        [\]\}]) depth=$((depth - 1)) ;;
        ,)
          if ((depth == 0)); then
            printf '%s\n' "$value"
            value=''
            continue
          fi
          ;;
      esac
    fi
    value+=$c
  done
  printf '%s\n' "$value"
}

# A folder name for a point: its settings, with what a file name should not hold replaced.
point_name() {
  local name=$1
  name=${name//[^A-Za-z0-9._=,+-]/_}
  printf '%s\n' "${name:0:200}"
}

# Fills `points`: each is its KEY=VALUE pairs, with a newline between them.
make_points() {
  local grid key value point extended values
  points=('')
  for grid in "${grids[@]}"; do
    key=${grid%%=*}
    mapfile -t values < <(split_values "${grid#*=}")
    extended=()
    for point in "${points[@]}"; do
      for value in "${values[@]}"; do
        [[ -n "$value" ]] || die 2 "--grid $grid: a value is empty"
        extended+=("${point:+$point$'\n'}$key=$value")
      done
    done
    points=("${extended[@]}")
  done
}

# Fills `folders`, and refuses a grid of which two points would share one.
name_points() {
  local point name
  local -A seen=()
  for point in "${points[@]}"; do
    name=$(point_name "${point//$'\n'/,}")
    [[ -z "${seen[$name]:-}" ]] || die 2 "--grid: two points are the same: $name"
    seen[$name]=1
    folders+=("$output/$name")
  done
}

is_done() {
  [[ -f "$1/summary.json" && "$(json_value "$1/summary.json" status)" == "done" ]]
}

# Fills `command` with point $1's command line.
make_command() {
  local pairs pair
  mapfile -t pairs <<<"${points[$1]}"
  command=("$trainer" --config "$config" --output "${folders[$1]}" --resume auto "${settings[@]}")
  for pair in "${pairs[@]}"; do command+=(--set "$pair"); done
}

# Starts point $1 on slot $2. In a process group of its own (setsid), so that a terminal's Ctrl-C
# reaches a run once, through us, and not twice: the second signal stops a run without saving.
start() {
  local point=$1 slot=$2 environment=()
  make_command "$point"
  ((${#gpus[@]})) && environment=("CUDA_VISIBLE_DEVICES=${gpus[slot % ${#gpus[@]}]}")
  mkdir -p -- "${logs[point]%/*}"
  env "${environment[@]}" setsid "${command[@]}" </dev/null >>"${logs[point]}" 2>&1 &
  point_of[$!]=$point
  slot_of[$!]=$slot
  # A signal that came before the run was on the list has not reached it.
  ((interrupted == 0)) || kill -TERM $! 2>/dev/null || true
  say "started  ${folders[point]##*/}${environment[0]:+  (GPU ${environment[0]#*=})}"
}

# Waits until a run ends, and books its exit code.
reap() {
  local pid code=0
  wait -n -p pid "${!point_of[@]}" || code=$?
  # No pid: a signal came, and the trap has passed it on.
  [[ -n "${pid:-}" ]] || return 0
  codes[${point_of[$pid]}]=$code
  free_slots+=("${slot_of[$pid]}")
  local name=${folders[${point_of[$pid]}]##*/}
  if ((code == 0)); then
    say "done     $name"
  else
    say "exit $code  $name: see ${logs[${point_of[$pid]}]}"
  fi
  unset "point_of[$pid]" "slot_of[$pid]"
}

# Passes a signal on to the runs; they save and end, and nothing new is started.
interrupt() {
  interrupted=$1
  ((${#point_of[@]} == 0)) && return
  say "SIG$2: waiting for ${#point_of[@]} runs to save; again to stop them at once"
  kill -TERM "${!point_of[@]}" 2>/dev/null || true
}

run_points() {
  local point
  for ((point = 0; point < ${#points[@]}; point++)); do
    if is_done "${folders[point]}"; then
      codes[point]=0
      say "skipped  ${folders[point]##*/}: done already"
      continue
    fi
    while ((${#free_slots[@]} == 0 && interrupted == 0)); do reap; done
    ((interrupted)) && break
    start "$point" "${free_slots[0]}"
    free_slots=("${free_slots[@]:1}")
  done
  while ((${#point_of[@]})); do reap; done
}

state_of() {
  local code=${codes[$1]:-}
  case $code in
    '') printf 'not run' ;;
    0) printf 'done' ;;
    130 | 143) printf 'interrupted' ;;
    *) printf 'failed (%s)' "$code" ;;
  esac
}

print_table() {
  local point value direction=-r
  $ascending && direction=
  echo
  printf '%-20s  %-14s  %s\n' "$metric" state run
  for ((point = 0; point < ${#points[@]}; point++)); do
    value=-
    if [[ "${codes[point]:-}" == 0 ]]; then
      value=$(json_value "${folders[point]}/summary.json" "$metric" 2>/dev/null) || value=-
    fi
    printf '%s\t%s\t%s\n' "$value" "$(state_of "$point")" "${folders[point]}"
  done | {
    # Those without a value last, whichever way the others are sorted.
    rows=$(cat)
    grep -v $'^-\t' <<<"$rows" | LC_ALL=C sort -s -g $direction -t $'\t' -k 1,1 || true
    grep $'^-\t' <<<"$rows" || true
  } | awk -F '\t' '{ printf "%-20s  %-14s  %s\n", $1, $2, $3 }'
}

check_command_line
trainer=$(find_trainer)
name=$(basename -- "$config")
output=${output:-runs/sweep-${name%.*}}
output=${output%/}
points=() folders=() logs=() codes=() command=()
make_points
name_points
for folder in "${folders[@]}"; do logs+=("$output/logs/${folder##*/}.log"); done

if $dry_run; then
  for ((i = 0; i < ${#points[@]}; i++)); do
    make_command "$i"
    printf '%q ' "${command[@]}"
    echo
  done
  exit 0
fi

slots=${jobs:-${#gpus[@]}}
((slots > 0)) || slots=1
# Runs that share the CPUs share them out: more threads than CPUs wait for one another.
if ((slots > 1)) && [[ -z "${OMP_NUM_THREADS:-}" ]]; then
  OMP_NUM_THREADS=$(($(nproc) / slots))
  ((OMP_NUM_THREADS > 0)) || OMP_NUM_THREADS=1
  export OMP_NUM_THREADS
fi
free_slots=()
for ((i = 0; i < slots; i++)); do free_slots+=("$i"); done
declare -A point_of=() slot_of=()
interrupted=0
trap 'interrupt 130 INT' INT
trap 'interrupt 143 TERM' TERM

say "${#points[@]} points, $slots at a time, in $output"
run_points
print_table
((interrupted)) && exit "$interrupted"
failed=0
for code in "${codes[@]}"; do ((code == 0)) || failed=$((failed + 1)); done
((failed == 0)) || die 1 "$failed of ${#points[@]} runs failed"
