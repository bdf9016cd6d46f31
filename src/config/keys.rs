//! The table of sections and keys: names, ranges, units, defaults, descriptions.

use std::fmt;

use super::units::{KIB, MIB, Size, TIB};

/// What a key accepts. Parser, messages and documentation all read it here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// A whole number between two bounds, both included.
    Integer {
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
    },
    /// The word, or a whole number between two bounds.
    WordOrInteger {
        /// The word, such as `auto`.
        word: &'static str,
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
    },
    /// A number of bytes between two bounds.
    Size {
        /// Least bytes.
        min: u64,
        /// Most bytes.
        max: u64,
    },
    /// The word, or a number of bytes between two bounds.
    WordOrSize {
        /// The word, such as `auto`.
        word: &'static str,
        /// Least bytes.
        min: u64,
        /// Most bytes.
        max: u64,
    },
    /// A number of bytes between two bounds, or a percentage.
    SizeOrPercent {
        /// Least bytes.
        min: u64,
        /// Most bytes.
        max: u64,
        /// Greatest percentage; the least is 1.
        max_percent: u64,
        /// What the percentage is of.
        of: &'static str,
    },
    /// A number of bytes that is a power of two.
    PowerOfTwo {
        /// Least bytes.
        min: u64,
        /// Most bytes.
        max: u64,
    },
    /// One of a few words.
    OneOf(&'static [&'static str]),
    /// Something that only its own section can check, in words.
    Other(&'static str),
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Integer { min, max } => write!(f, "a whole number from {min} to {max}"),
            Self::WordOrInteger { word, min, max } => {
                write!(f, "\"{word}\" or a whole number from {min} to {max}")
            }
            Self::Size { min, max } => write!(f, "a size from {} to {}", Size(min), Size(max)),
            Self::WordOrSize { word, min, max } => {
                write!(f, "\"{word}\" or a size from {} to {}", Size(min), Size(max))
            }
            Self::SizeOrPercent { min, max, max_percent, of } => {
                let (min, max) = (Size(min), Size(max));
                write!(f, "a size from {min} to {max}, or \"1%\" to \"{max_percent}%\" of {of}")
            }
            Self::PowerOfTwo { min, max } => {
                write!(f, "a power of two from {} to {}", Size(min), Size(max))
            }
            Self::OneOf(words) => {
                f.write_str("one of ")?;
                for (at, word) in words.iter().enumerate() {
                    write!(f, "{}\"{word}\"", if at == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            Self::Other(words) => f.write_str(words),
        }
    }
}

/// One key of a section.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Name in the file.
    pub name: &'static str,
    /// Unit of a bare number; empty for keys that are not numbers.
    pub unit: &'static str,
    /// What it accepts.
    pub allowed: Allowed,
    /// The default, in words.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
}

/// One section of the file.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// Name in the file.
    pub name: &'static str,
    /// What it is about.
    pub help: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

/// Every section. `dataset` holds the keys of each `[dataset.NAME]`, `store` also those of each URL prefix.
pub const SECTIONS: &[Section] = &[SERVE, POOL, CACHE, IO, PREFETCH, BATCH, STORE, DATASET, TELEMETRY];

/// Names of all sections.
pub const SECTION_NAMES: &[&str] =
    &["serve", "pool", "cache", "io", "prefetch", "batch", "store", "dataset", "telemetry"];

/// The section called `name`.
pub fn section(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.name == name)
}

/// The most bytes any size key takes: far above real hardware, far below where sums overflow.
const MOST: u64 = 4096 * TIB;

const SERVE: Section = Section {
    name: "serve",
    help: "The control socket that clients connect to.",
    keys: &[
        Key {
            name: "socket",
            unit: "",
            allowed: Allowed::Other("an absolute path of at most 107 bytes"),
            default: "`$RUNTIME_DIRECTORY/feedline.sock`, else `$XDG_RUNTIME_DIR/feedline/feedline.sock`, else \
                      `/tmp/feedline-UID/feedline.sock` in a directory of mode 0700 that must be ours",
            help: "Path of the Unix socket.",
        },
        Key {
            name: "threads",
            unit: "threads",
            allowed: Allowed::Integer { min: 1, max: 64 },
            default: "2",
            help: "Threads that answer clients and HTTP requests. They move descriptors, not data.",
        },
    ],
};

const POOL: Section = Section {
    name: "pool",
    help: "Shared memory that clients map; also the memory tier of the cache.",
    keys: &[
        Key {
            name: "bytes",
            unit: "bytes",
            allowed: Allowed::SizeOrPercent {
                min: MIB,
                max: 16 * TIB,
                max_percent: 90,
                of: "the memory that the control group or the machine allows",
            },
            default: "25 % of the memory that the control group or the machine allows, at least 64 MiB, at most \
                      64 GiB",
            help: "Size of the pool. It counts as memory of the daemon's control group. What is left beside prefetch.inflight_bytes is for streams: four blocks for each at the least.",
        },
        Key {
            name: "block_bytes",
            unit: "bytes",
            allowed: Allowed::PowerOfTwo { min: 64 * KIB, max: 64 * MIB },
            default: "4 MiB, or less when the pool would hold fewer than 16 blocks",
            help: "Unit of store requests, disk reads, checksums and shared memory. Cached shards keep the block \
                   size they were written with.",
        },
    ],
};

const CACHE: Section = Section {
    name: "cache",
    help: "The cache directory on a local disk.",
    keys: &[
        Key {
            name: "dir",
            unit: "",
            allowed: Allowed::Other("an absolute path, or one that starts with ~/"),
            default: "`$CACHE_DIRECTORY`, else `$XDG_CACHE_HOME/feedline`, else `~/.cache/feedline`",
            help: "Directory of the cache. Files that are not ours are never touched.",
        },
        Key {
            name: "bytes",
            unit: "bytes",
            allowed: Allowed::Size { min: 64 * KIB, max: MOST },
            default: "80 % of the file system's free space plus what the cache already holds; 10 % of it when that is \
                      the root file system; at least 256 MiB",
            help: "Hard limit for cached shards, reserved before a byte is written.",
        },
        Key {
            name: "index_bytes",
            unit: "bytes",
            allowed: Allowed::Size { min: MIB, max: TIB },
            default: "256 MiB",
            help: "Disk space, within cache.bytes, for record indexes, which outlive their shards; the oldest go first.",
        },
    ],
};

const IO: Section = Section {
    name: "io",
    help: "How the cache directory is read and written.",
    keys: &[
        Key {
            name: "engine",
            unit: "",
            allowed: Allowed::OneOf(&["auto", "io_uring", "threads"]),
            default: "`auto`: io_uring where the kernel allows it, else threads",
            help: "With `io_uring` the daemon refuses to start where the kernel does not allow it.",
        },
        Key {
            name: "depth",
            unit: "requests",
            allowed: Allowed::Integer { min: 1, max: 1024 },
            default: "32",
            help: "Disk requests in flight at most.",
        },
    ],
};

const PREFETCH: Section = Section {
    name: "prefetch",
    help: "Threads that read from the object store, and how far they look ahead.",
    keys: &[
        Key {
            name: "threads",
            unit: "threads",
            allowed: Allowed::WordOrInteger { word: "auto", min: 1, max: 256 },
            default: "`auto`: 3 per GPU but not more than the CPUs that we may use, without GPUs one per CPU; 2 to 32",
            help: "Prefetch threads, each with its own connections.",
        },
        Key {
            name: "requests_per_thread",
            unit: "requests",
            allowed: Allowed::Integer { min: 1, max: 256 },
            default: "4",
            help: "Requests that one thread has in flight.",
        },
        Key {
            name: "window_bytes",
            unit: "bytes",
            allowed: Allowed::WordOrSize { word: "auto", min: 64 * KIB, max: 16 * TIB },
            default: "`auto`: a quarter of the pool, at least 4 blocks, at most 8 GiB",
            help: "How far each stream looks ahead.",
        },
        Key {
            name: "inflight_bytes",
            unit: "bytes",
            allowed: Allowed::WordOrSize { word: "auto", min: 64 * KIB, max: 16 * TIB },
            default: "`auto`: one block per request of every thread, at most half of the pool",
            help: "Bytes on their way from the store at most, over all threads.",
        },
    ],
};

const BATCH: Section = Section {
    name: "batch",
    help: "Batches handed to clients.",
    keys: &[Key {
        name: "ready",
        unit: "batches",
        allowed: Allowed::Integer { min: 1, max: 1024 },
        default: "8",
        help: "Batches kept ready for each stream.",
    }],
};

const STORE: Section = Section {
    name: "store",
    help: "Options of object stores: `[store]` for every URL, `[store.\"s3://bucket/\"]` for URLs that start with \
           that prefix; the longest prefix wins, option by option. What is left out comes from the usual variables of \
           the vendor, such as `AWS_ACCESS_KEY_ID`, then from the defaults.",
    keys: &[
        Key {
            name: "endpoint",
            unit: "",
            allowed: Allowed::Other("`https://host[:port]`, without the bucket"),
            default: "made from the region",
            help: "Root of the service.",
        },
        Key {
            name: "region",
            unit: "",
            allowed: Allowed::Other("letters, digits and -, such as \"cn-beijing\""),
            default: "`us-east-1` with an endpoint of your own",
            help: "Region, for the signature and for built endpoints.",
        },
        Key {
            name: "access_key",
            unit: "",
            allowed: Allowed::Other("text, together with secret_key"),
            default: "from the environment",
            help: "Access key id; for `az` the storage account. Never shown.",
        },
        Key {
            name: "secret_key",
            unit: "",
            allowed: Allowed::Other("text, together with access_key"),
            default: "from the environment",
            help: "Secret of the access key; for `az` the account key. Never shown.",
        },
        Key {
            name: "session_token",
            unit: "",
            allowed: Allowed::Other("text"),
            default: "from the environment",
            help: "Token of temporary keys. Never shown.",
        },
        Key {
            name: "addressing",
            unit: "",
            allowed: Allowed::Other("one of \"auto\", \"virtual\", \"path\""),
            default: "`auto`: `virtual` for AWS, Volcengine, BytePlus and Aliyun hosts, else `path`",
            help: "Whether the bucket stands in the host name or in the path.",
        },
        Key {
            name: "anonymous",
            unit: "",
            allowed: Allowed::Other("true or false"),
            default: "`false`",
            help: "Send no credentials, for public buckets.",
        },
        Key {
            name: "allow_http",
            unit: "",
            allowed: Allowed::Other("true or false"),
            default: "`false`; loopback addresses are always permitted",
            help: "Permit an `http://` endpoint: data travels in the clear.",
        },
        Key {
            name: "ca_bundle",
            unit: "",
            allowed: Allowed::Other("the absolute path of a PEM file"),
            default: "none",
            help: "More certificate authorities.",
        },
        Key {
            name: "proxy",
            unit: "",
            allowed: Allowed::Other("\"off\", or http://host:port or https://host:port"),
            default: "`HTTP_PROXY` and its kin",
            help: "Proxy; never used for loopback addresses.",
        },
        Key {
            name: "internal",
            unit: "",
            allowed: Allowed::Other("true or false"),
            default: "`false`",
            help: "Use the TOS hosts that only the region's private network reaches.",
        },
        Key {
            name: "byteplus",
            unit: "",
            allowed: Allowed::Other("true or false"),
            default: "`false`",
            help: "Use the hosts of BytePlus for `tos`.",
        },
        Key {
            name: "stall_timeout",
            unit: "",
            allowed: Allowed::Other("a duration from \"100ms\" to \"10m\""),
            default: "`10s`",
            help: "A read is tried again when no byte arrived for this long.",
        },
        Key {
            name: "connect_timeout",
            unit: "",
            allowed: Allowed::Other("a duration from \"10ms\" to \"2m\""),
            default: "`3s`",
            help: "Time for a connection to be made.",
        },
        Key {
            name: "retries",
            unit: "attempts",
            allowed: Allowed::Other("a whole number from 0 to 100"),
            default: "10",
            help: "Failures in a row without progress before a read fails.",
        },
    ],
};

const DATASET: Section = Section {
    name: "dataset",
    help: "A data set that clients open by name: `[dataset.NAME]`. Names have 1 to 63 letters, digits, `-`, `_` or \
           `.`; they become a label of the metrics. From the file only.",
    keys: &[
        Key {
            name: "url",
            unit: "",
            allowed: Allowed::Other("one URL or pattern"),
            default: "none; one of `url` and `urls` is needed",
            help: "Where the shards are, for example `s3://bucket/train-*.tfrecord`.",
        },
        Key {
            name: "urls",
            unit: "",
            allowed: Allowed::Other("a list of URLs or patterns, at least one"),
            default: "none",
            help: "Several places; the shards of all of them are sorted together.",
        },
        Key {
            name: "corrupt",
            unit: "",
            allowed: Allowed::Other("\"fail\" or { skip = N } with N from 1"),
            default: "`fail`",
            help: "What a record with a bad checksum does: end the stream with an error, or be skipped and counted, \
                   up to N per epoch.",
        },
    ],
};

const TELEMETRY: Section = Section {
    name: "telemetry",
    help: "Metrics and logs.",
    keys: &[
        Key {
            name: "listen",
            unit: "",
            allowed: Allowed::Other("an address with port such as \"127.0.0.1:9464\", or \"off\""),
            default: "`127.0.0.1:9464`",
            help: "Address of `/metrics`, `/healthz` and `/readyz`. Nothing there is secret, nothing is encrypted.",
        },
        Key {
            name: "log",
            unit: "",
            allowed: Allowed::Other(
                "a level such as \"info\", or a filter such as \"info,feedline::cache=debug\"",
            ),
            default: "`info`",
            help: "What is logged, to standard error.",
        },
        Key {
            name: "log_format",
            unit: "",
            allowed: Allowed::OneOf(&["text", "json"]),
            default: "`text`",
            help: "One line of text, or one JSON object per line.",
        },
    ],
};
