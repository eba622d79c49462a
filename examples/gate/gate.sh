#!/bin/sh
# Fail a pipeline when a service no longer holds its load:
#
#   ./gate.sh https://staging.example/books [250ms]
#
# Exit codes: 0 it holds, 3 a threshold was breached, 4 no run was a valid measurement.

url=${1:?usage: gate.sh URL [P99]}
limit=${2:-250ms}

for attempt in 1 2 3; do
    # An open load: 500 requests leave in each second, however slow the answers are, and latency counts
    # from when each was due. So a stall of the server cannot hide by holding the load up.
    trilane load -R 500 -d 10s -c 8 -m 50 --h2c \
        --fail-if "p99>$limit" --fail-if 'error_rate>0.1%' --html gate.html "$url"
    code=$?
    # 4 says that the machine which sends disturbed the run: neither a pass nor a failure. Ask again.
    [ "$code" -eq 4 ] || exit "$code"
    echo "gate.sh: attempt $attempt was no valid measurement" >&2
done
exit 4
