#!/bin/sh
# Reads the hardware counters of runs of config/record/attention.yaml on this GPU, and adds them to data/h200.
#
#   perf/read_counters.sh [EXPERIMENT,... [SECONDS]]
#
# By default the experiments that a reader asks about first, for at most 8 minutes; about 10 s a run.
# What was read before is kept (results/local/records/counters-*.json) and not read again, so that
# a further call goes on where one was cut off.
set -eu
cd "$(dirname "$0")/.."
export PYTHONPATH="$PWD/workflow${PYTHONPATH:+:$PYTHONPATH}"
experiments=${1:-causal}
seconds=${2:-420}
# Interrupted, Snakemake ends its jobs; what they have not read is left out below.
timeout --signal=INT --kill-after=30 "$seconds" \
    snakemake --cores 8 --keep-going counters --configfile config/record/attention.yaml \
    --config counters=yes "experiments=[$experiments]" || echo "not all counters were read" >&2
python -m flashlab freeze-counters --name h200 --data data results/local/plan/records/*.json
