#!/usr/bin/env bash
# Counts the sync calls of the service with strace. 1,000 sequential commands need at least 1,000 syncs, and no response
# is sent before the sync of its command; 64 concurrent clients need far fewer syncs than commands. Needs strace and
# Python 3.
#
#   benches/syncs.sh     builds the release binary and runs all checks; exits with 1 if a count or the order is wrong
set -euo pipefail
cd "$(dirname "$0")/.."
command -v strace >/dev/null || { echo "strace is needed (Debian: apt-get install strace)" >&2; exit 2; }
cargo build --release --quiet --bin mediary
binary="${CARGO_TARGET_DIR:-target}/release/mediary"
work=$(mktemp -d)
service=
trap '[ -z "$service" ] || pkill -KILL -P "$service" || true; rm -rf "$work"' EXIT

start() { # $1: strace output, the rest: strace options
    local out=$1; shift
    : >"$work/stdout"
    MEDIARY_ADMIN_TOKEN=token-of-the-sync-count strace -f "$@" -o "$out" "$binary" serve --listen 127.0.0.1:0 --data-dir "$work/$(basename "$out").data" \
        >>"$work/stdout" 2>"$work/stderr" &
    service=$!
    until grep -q 'http://127.0.0.1:[0-9]' "$work/stdout"; do
        kill -0 "$service" 2>/dev/null || { cat "$work/stderr" >&2; exit 2; }
        sleep 0.1
    done
    base=$(grep -o 'http://127.0.0.1:[0-9]*' "$work/stdout" | head -n 1)
}
stop() { pkill -TERM -P "$service" mediary; wait "$service" || true; service=; }
syncs() { awk '$NF == "fdatasync" || $NF == "fsync" { sum += $4 } END { print sum + 0 }' "$1"; }

echo "== no commands: what start and stop need"
start "$work/idle" -c -e trace=fdatasync,fsync
stop
idle=$(syncs "$work/idle")
echo "syncs of start and stop: $idle"

echo "== 1,000 commands, one after the other, under strace -c -f"
start "$work/sequential" -c -e trace=fdatasync,fsync
python3 benches/commands.py "$base" --clients 1 --commands 1000
stop
cat "$work/sequential"
sequential=$(($(syncs "$work/sequential") - idle))
echo "syncs for 1,001 sequential commands, without those of start and stop: $sequential"

echo "== the order of syncs and responses, 200 commands one after the other"
start "$work/ordered" -e trace=fdatasync,fsync,write,writev,sendto,sendmsg -s 24
python3 benches/commands.py "$base" --clients 1 --commands 200
stop
python3 benches/commands.py --check-order "$work/ordered"

echo "== 6,400 commands of 64 clients at once, under strace -c -f"
start "$work/together" -c -e trace=fdatasync,fsync
python3 benches/commands.py "$base" --clients 64 --commands 6400
stop
together=$(($(syncs "$work/together") - idle))
echo "syncs for 6,464 commands of 64 clients, without those of start and stop: $together"

[ "$sequential" -ge 1000 ] || { echo "FAILED: fewer syncs than sequential commands" >&2; exit 1; }
[ "$together" -lt 3200 ] || { echo "FAILED: concurrent clients do not share syncs" >&2; exit 1; }
echo "ok"
