#!/usr/bin/env bash
# The hot path beside tf.data: 8 shards of 1,251 records of about 115 kB, then 8 shards of 50,000 records of about
# 1 kB, on a local path, read by one consumer that copies each record once. All data is in memory when it is measured:
# TensorFlow reads from the page cache, Feedline from its pool.
#
#   benches/peers/hot_path.sh [--dir D] [--rounds N] [--venv V]
#
#   --dir D      data, daemon's cache and logs; 3.5 GB are needed [default: .quickstart/hot-path in the clone]
#   --rounds N   rounds of one run each, interleaved [default: 5]
#   --venv V     Python environment with tensorflow-cpu, made if it is not there [default: D/venv, about 1.5 GB]
#
# What each side is given: benches/peers/compare.py.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
TENSORFLOW="tensorflow-cpu==2.21.0"

dir=$root/.quickstart/hot-path rounds=5 venv=''
fail() {
    printf 'hot_path: %s\n' "$*" >&2
    exit 1
}
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        sed -n '2,11s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    --dir | --rounds | --venv)
        [ -n "${2:-}" ] || fail "$1 needs a value"
        declare "${1#--}=$2"
        shift
        ;;
    *) fail "unknown option $1; see --help" ;;
    esac
    shift
done
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
venv=${venv:-$dir/venv}

if ! "$venv/bin/python" -c 'import importlib.util as u; exit(u.find_spec("tensorflow") is None)' 2>/dev/null; then
    printf 'installing %s into %s\n' "$TENSORFLOW" "$venv"
    python3 -m venv "$venv" || fail "could not make a Python environment; on Debian: apt-get install python3-venv"
    "$venv/bin/pip" install -q --disable-pip-version-check "$TENSORFLOW" ||
        fail "could not install $TENSORFLOW: is there a wheel for $(python3 --version)?"
fi

(cd "$root" && cargo build --release --quiet -p feedline -p feedline-loadgen) || fail "the build failed"
bin=${CARGO_TARGET_DIR:-$root/target}/release

"$bin/feedline-loadgen" make "$dir/large" --profile images --shards 8 --records 1251 --seed 5
"$bin/feedline-loadgen" make "$dir/small" --profile small --shards 8 --records 50000 --seed 5

daemon_pid=''
stop() {
    if [ -n "$daemon_pid" ]; then
        kill "$daemon_pid" 2>/dev/null || true
        wait "$daemon_pid" 2>/dev/null || true
    fi
}
trap stop EXIT
trap 'exit 130' INT TERM

# A pool that holds all of the data, as the page cache does on the other side.
cat >"$dir/feedline.toml" <<END
[serve]
socket = "$dir/feedline.sock"

[cache]
dir = "$dir/cache"
bytes = "2 GiB"

[pool]
bytes = "2 GiB"

[telemetry]
listen = "off"
END
mkdir -p "$dir/cache"
rm -f "$dir/feedline.sock"
"$bin/feedline" serve --config "$dir/feedline.toml" >"$dir/daemon.log" 2>&1 &
daemon_pid=$!
for attempt in $(seq 150); do
    kill -0 $daemon_pid 2>/dev/null || fail "the daemon ended: see $dir/daemon.log"
    if [ -S "$dir/feedline.sock" ]; then break; fi
    [ "$attempt" -lt 150 ] || fail "the daemon was not ready within 15 s: see $dir/daemon.log"
    sleep 0.1
done

"$venv/bin/python" "$root/benches/peers/compare.py" --loadgen "$bin/feedline-loadgen" \
    --socket "$dir/feedline.sock" --data "$dir" --rounds "$rounds"
