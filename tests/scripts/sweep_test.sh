#!/usr/bin/env bash
# Tests of scripts/sweep.sh with a stand-in for the trainer.
source "$(dirname -- "${BASH_SOURCE[0]}")/harness.sh"

# A trainer that notes how it was called, and "trains": its accuracy is the learning rate's digits,
# lr=bad fails with exit code 3, and lr=slow waits for SIGTERM and then saves.
make_trainer() {
  touch exp.yaml
  cat >"$dir/the trainer" <<'T'
#!/usr/bin/env bash
calls=$PWD/calls
output='' lr=''
arguments=("$@")
while (($#)); do
  case $1 in
    --output) output=$2 ;;
    --set) [[ "$2" == optim.lr=* ]] && lr=${2#*=} ;;
  esac
  shift
done
printf '%s | gpu=%s\n' "${arguments[*]}" "${CUDA_VISIBLE_DEVICES-unset}" >>"$calls"
mkdir -p "$output"
summary() {
  printf '{\n  "status": "%s",\n  "val/accuracy": %s\n}\n' "$1" "$2" \
    >"$output/summary.json"
}
case $lr in
  bad)
    echo "exp.yaml:3:7: optim.lr: expected a number" >&2
    exit 3
    ;;
  slow)
    trap 'summary stopped 0; exit 143' TERM
    touch "$output/started"
    while :; do sleep 0.05; done
    ;;
  *) summary done "0.$lr" ;;
esac
T
  chmod +x "$dir/the trainer"
}

sweep() { "$SOURCE_DIR/scripts/sweep.sh" --trainer "$dir/the trainer" --config exp.yaml "$@"; }

test_every_combination_runs_in_a_folder_of_its_own() {
  make_trainer
  run sweep --grid optim.lr=1,2 --grid seed=7,8 --set train.length='3 steps' --output "a sweep"
  assert_eq "$code" 0
  assert_eq "$(wc -l <calls)" 4
  for name in optim.lr=1,seed=7 optim.lr=1,seed=8 optim.lr=2,seed=7 optim.lr=2,seed=8; do
    assert_file "a sweep/$name/summary.json"
    assert_file "a sweep/logs/$name.log"
  done
  assert_contains "$(<calls)" "--config exp.yaml --output a sweep/optim.lr=2,seed=8 --resume auto \
--set train.length=3 steps --set optim.lr=2 --set seed=8 | gpu=unset"
}

test_the_table_is_sorted_by_the_metric() {
  make_trainer
  run sweep --grid optim.lr=2,9,5
  assert_eq "$code" 0
  assert_contains "$output" "val/accuracy          state           run
0.9                   done            runs/sweep-exp/optim.lr=9
0.5                   done            runs/sweep-exp/optim.lr=5
0.2                   done            runs/sweep-exp/optim.lr=2"
  run sweep --grid optim.lr=2,9,5 --ascending
  assert_contains "$output" "
0.2                   done            runs/sweep-exp/optim.lr=2
0.5                   done            runs/sweep-exp/optim.lr=5
0.9                   done            runs/sweep-exp/optim.lr=9"
}

test_a_failure_stops_no_other_run_and_is_reported() {
  make_trainer
  run sweep --grid optim.lr=1,bad,2
  assert_eq "$code" 1
  assert_contains "$output" "exit 3  optim.lr=bad: see runs/sweep-exp/logs/optim.lr=bad.log"
  assert_contains "$output" "
-                     failed (3)      runs/sweep-exp/optim.lr=bad"
  assert_contains "$output" "sweep.sh: 1 of 3 runs failed"
  assert_contains "$output" "0.2                   done            runs/sweep-exp/optim.lr=2"
  assert_contains "$(<runs/sweep-exp/logs/optim.lr=bad.log)" "exp.yaml:3:7: optim.lr"
}

test_finished_points_are_skipped_and_others_run_again() {
  make_trainer
  run sweep --grid optim.lr=1,bad
  run sweep --grid optim.lr=1,bad,3
  assert_contains "$output" "skipped  optim.lr=1: done already"
  assert_eq "$(grep -c 'optim.lr=1 ' calls)" 1
  assert_eq "$(grep -c 'optim.lr=bad ' calls)" 2
  assert_eq "$(grep -c 'optim.lr=3 ' calls)" 1
  assert_contains "$output" "0.1                   done            runs/sweep-exp/optim.lr=1"
}

test_gpus_are_dealt_out() {
  make_trainer
  run sweep --grid optim.lr=1,2,3,4 --gpus 0,GPU-5
  assert_eq "$code" 0
  assert_eq "$(grep -c 'gpu=0$' calls)" "$((4 - $(grep -c 'gpu=GPU-5$' calls)))"
  assert_contains "$(<calls)" "gpu=0"
  assert_contains "$(<calls)" "gpu=GPU-5"
  assert_contains "$output" "4 points, 2 at a time"
}

test_sigterm_reaches_the_runs_and_starts_no_more() {
  make_trainer
  # Not through the function: $! is to be the script itself, not a subshell around it.
  "$SOURCE_DIR/scripts/sweep.sh" --trainer "$dir/the trainer" --config exp.yaml \
    --grid optim.lr=slow --grid seed=1,2,3 --jobs 2 >log 2>&1 &
  local pid=$! tries
  for ((tries = 0; tries < 200; tries++)); do
    [[ -f runs/sweep-exp/optim.lr=slow,seed=1/started &&
      -f runs/sweep-exp/optim.lr=slow,seed=2/started ]] && break
    sleep 0.05
  done
  kill -TERM "$pid"
  code=0
  wait "$pid" || code=$?
  assert_eq "$code" 143
  assert_contains "$(<log)" "SIGTERM: waiting for 2 runs to save; again to stop them at once"
  assert_contains "$(<log)" "-                     interrupted     runs/sweep-exp/optim.lr=slow,seed=1"
  assert_contains "$(<log)" "-                     not run         runs/sweep-exp/optim.lr=slow,seed=3"
  assert_contains "$(<runs/sweep-exp/optim.lr=slow,seed=2/summary.json)" '"status": "stopped"'
  assert_eq "$(wc -l <calls)" 2
}

test_commas_within_brackets_belong_to_a_value() {
  make_trainer
  run sweep --grid 'model.hidden=[64,32],[128]' --dry-run
  assert_eq "$code" 0
  assert_contains "$output" 'model.hidden=\[64\,32\]'
  assert_contains "$output" "runs/sweep-exp/model.hidden=_128_"
  assert_eq "$(wc -l <<<"$output")" 2
  [[ ! -e calls ]] || fail "a dry run ran"
}

test_wrong_command_lines() {
  make_trainer
  run sweep
  assert_eq "$code" 2
  assert_contains "$output" "--grid is missing: which settings vary?"
  run sweep --grid optim.lr
  assert_eq "$code" 2
  assert_contains "$output" "--grid optim.lr: expected KEY=VALUE,VALUE,..."
  run sweep --grid optim.lr=1,,2
  assert_eq "$code" 2
  assert_contains "$output" "--grid optim.lr=1,,2: a value is empty"
  run sweep --grid optim.lr=1,1
  assert_eq "$code" 2
  assert_contains "$output" "two points are the same: optim.lr=1"
  run sweep --grid optim.lr=1 --jobs 0
  assert_eq "$code" 2
  assert_contains "$output" "--jobs 0: expected a positive number"
  run sweep --grid optim.lr=1 --jobs
  assert_eq "$code" 2
  assert_contains "$output" "--jobs needs a value"
  run "$SOURCE_DIR/scripts/sweep.sh" --config missing.yaml --grid a=1
  assert_eq "$code" 2
  assert_contains "$output" "no experiment file at missing.yaml"
  run "$SOURCE_DIR/scripts/sweep.sh" --trainer nowhere --config exp.yaml --grid a=1
  assert_eq "$code" 2
  assert_contains "$output" "no program at nowhere"
}

run_tests
