"""The consumer of hot_path.sh on TensorFlow's side: tf.data.TFRecordDataset, each record copied once.

Prints one JSON object: records, bytes, seconds and CPU seconds (user and system, all threads) of one pass over the
shards, start-up and warm-up not counted. TensorFlow hands a record over as a string tensor; `.numpy()` makes the one
copy, to a bytes object that the consumer owns. That copy is in both variants:

    record   one tensor per record
    batch    ds.batch(N): one tensor of N strings per step

Options follow TensorFlow's performance guide: parallel reads with AUTOTUNE or a given number, the buffer size as
given, prefetch(AUTOTUNE), and deterministic=False where the order is not asked for.
"""

import argparse
import glob
import json
import os
import resource
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tensorflow as tf  # noqa: E402  (the variables above must be set first)


def dataset(files, options):
    reads = tf.data.AUTOTUNE if options.parallel_reads == 0 else options.parallel_reads
    ds = tf.data.TFRecordDataset(files, buffer_size=options.buffer_bytes, num_parallel_reads=reads)
    settings = tf.data.Options()
    settings.deterministic = options.deterministic
    ds = ds.with_options(settings)
    if options.variant == "batch":
        ds = ds.batch(options.batch_size, num_parallel_calls=tf.data.AUTOTUNE, deterministic=options.deterministic)
    return ds.prefetch(tf.data.AUTOTUNE)


def consume(ds, variant):
    records = size = 0
    if variant == "batch":
        for batch in ds:
            copies = batch.numpy()
            records += len(copies)
            size += sum(map(len, copies))
    else:
        for record in ds:
            size += len(record.numpy())
            records += 1
    return records, size


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", help="files to read, such as 'dir/*.tfrecord'")
    parser.add_argument("--variant", choices=["record", "batch"], default="batch")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--parallel-reads", type=int, default=0, help="0 is AUTOTUNE")
    parser.add_argument("--buffer-bytes", type=int, default=8 << 20)
    parser.add_argument("--deterministic", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--passes", type=int, default=1, help="passes that are measured, after one that is not")
    options = parser.parse_args()

    files = sorted(glob.glob(options.pattern))
    if not files:
        parser.error(f"no file matches {options.pattern}")
    ds = dataset(files, options)
    consume(ds, options.variant)  # threads, tracing, autotuning and the page cache are warm after this
    began, cpu = time.perf_counter(), cpu_seconds()
    records = size = 0
    for _ in range(options.passes):
        more_records, more_size = consume(ds, options.variant)
        records, size = records + more_records, size + more_size
    seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu
    print(json.dumps({"records": records, "bytes": size, "seconds": seconds, "cpu_seconds": cpu}))


if __name__ == "__main__":
    main()
