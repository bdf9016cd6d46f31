"""Runs Feedline and tf.data in turn on the same files and prints both sides with their ratio.

Each round runs one after the other, in alternating order, so that whatever else the machine does hits both; a ratio is
taken within its round and given as median with the range over the rounds.

Both sides make one pass that does not count and PASSES that do. tf.data gets the best of VARIANTS, found in one trial
each at the start. CPU is user and system time: for tf.data of its process, for Feedline of the client's threads and the
daemon together.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

PASSES = 3
# Records per batch on both sides.
BATCH = {"large": 64, "small": 1024}
# Variant, parallel reads (0: AUTOTUNE). One tensor for each small record takes minutes and was never the best.
VARIANTS = {
    "large": [("record", 0), ("batch", 0), ("batch", 2), ("batch", 4), ("batch", 8)],
    "small": [("batch", 0), ("batch", 2), ("batch", 4), ("batch", 8)],
}


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def tf_data(pattern, batch, variant, reads):
    script = pathlib.Path(__file__).with_name("tfrecord_dataset.py")
    return run(
        [sys.executable, script, pattern, "--variant", variant, "--parallel-reads", str(reads)]
        + ["--batch-size", str(batch), "--passes", str(PASSES)]
    )


def feedline(options, pattern, batch):
    report = run(
        [options.loadgen, "run", pattern, "--socket", options.socket, "--clients", "1", "--copy", "--json"]
        + ["--batch-size", str(batch), "--epochs", str(PASSES + 1)]
    )
    epochs = report["epochs"][1:]
    total = {name: sum(epoch[name] for epoch in epochs) for name in ("records", "bytes", "seconds")}
    total["cpu_seconds"] = sum(e["client_cpu_seconds"] + e["daemon"]["cpu_seconds"] for e in epochs)
    return total


def figures(result):
    return {
        "MB/s": result["bytes"] / result["seconds"] / 1e6,
        "records/s": result["records"] / result["seconds"],
        "CPU s/GB": result["cpu_seconds"] / result["bytes"] * 1e9,
    }


def compare(options, name):
    pattern = f"{options.data}/{name}/*.tfrecord"
    batch = BATCH[name]
    trials = {choice: figures(tf_data(pattern, batch, *choice)) for choice in VARIANTS[name]}
    best = max(trials, key=lambda choice: trials[choice]["MB/s"])
    rounds = []
    for number in range(options.rounds):
        sides = {}
        for side in ("feedline", "tf.data") if number % 2 == 0 else ("tf.data", "feedline"):
            ours = side == "feedline"
            sides[side] = feedline(options, pattern, batch) if ours else tf_data(pattern, batch, *best)
        if any(sides["feedline"][key] != sides["tf.data"][key] for key in ("records", "bytes")):
            sys.exit(f"the two sides did not read the same: {sides}")
        rounds.append({side: figures(result) for side, result in sides.items()})

    size = sides["feedline"]["bytes"] / sides["feedline"]["records"]
    reads = best[1] or "AUTOTUNE"
    print(f"\nrecords of {size:,.0f} bytes; tf.data at its best: {best[0]}, num_parallel_reads={reads}")
    print(f"{'':12}{'feedline':>12}{'tf.data':>12}   ratio (lowest to highest of {options.rounds} rounds)")
    for figure in ("MB/s", "records/s", "CPU s/GB"):
        ours = statistics.median(r["feedline"][figure] for r in rounds)
        theirs = statistics.median(r["tf.data"][figure] for r in rounds)
        ratios = [r["feedline"][figure] / r["tf.data"][figure] for r in rounds]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        digits = 3 if figure == "CPU s/GB" else 0
        print(f"{figure:12}{ours:>12,.{digits}f}{theirs:>12,.{digits}f}   {statistics.median(ratios):.2f} ({spread})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loadgen", required=True, help="the feedline-loadgen binary")
    parser.add_argument("--socket", required=True, help="the daemon's socket")
    parser.add_argument("--data", required=True, help="folder with the datasets large and small")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for name in ("large", "small"):
        compare(options, name)


if __name__ == "__main__":
    main()
