//! The daemon as a whole: its parts put together, run until a signal, taken apart.

use super::datasets::Datasets;
use super::jobs::{self, Jobs};
use super::listener::Listener;
use super::metrics;
use super::registry::Registry;
use super::session::Shared;
use super::status::Reporter;
use crate::budget::ByteBudget;
use crate::cache::{Cache, CacheError, CacheSettings};
use crate::config::Config;
use crate::fetch::FetchThreads;
use crate::loader::{Loader, LoaderParts};
use crate::pool::{Leases, Pool};
use crate::ring::{Ring, RingError};
use crate::source::{SourceError, Stores};
use crate::telemetry::{Exporter, ExporterError, Health, http, systemd};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// Ranges of one shard that are fetched at the same time.
const RANGES_PER_SHARD: usize = 16;

/// A scan checks several times faster than one prefetch thread receives.
const PREFETCH_PER_SCANNER: usize = 4;
/// Threads that scan, at most.
const MOST_SCANNERS: usize = 8;

/// The condition of readiness that `/readyz` names.
const SERVING: &str = "serving";

/// How long tasks may take to end after a signal.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The cache directory cannot be made.
    #[error("cannot make the cache directory {}", dir.display())]
    CacheDir {
        /// The directory.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The disk engine cannot be started.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The cache cannot be opened.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The pool cannot be made.
    #[error("cannot make a pool of {bytes} bytes of shared memory (pool.bytes)")]
    Pool {
        /// Its size.
        bytes: u64,
        /// Why.
        source: io::Error,
    },
    /// The pool has no room for streams beside what is in flight.
    #[error(
        "pool.bytes of {pool} bytes leaves no room for streams beside prefetch.inflight_bytes of {inflight}: raise the first above {wanted}, or lower the second"
    )]
    PoolShare {
        /// Pool bytes.
        pool: u64,
        /// In-flight bytes.
        inflight: u64,
        /// Smallest pool that would do.
        wanted: u64,
    },
    /// The stores' settings make no sense.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Threads or runtime.
    #[error("cannot start {what}")]
    Start {
        /// What.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The socket cannot be bound.
    #[error("cannot listen on {} (serve.socket){}", socket.display(), in_use(source))]
    Socket {
        /// The path.
        socket: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The HTTP port cannot be bound.
    #[error("cannot listen on {address} (telemetry.listen); choose another port, or \"off\"")]
    Http {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Metrics cannot be exported.
    #[error(transparent)]
    Exporter(#[from] ExporterError),
}

fn in_use(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another daemon listens there",
        _ => "",
    }
}

/// What the daemon says once it serves.
#[derive(Debug, Clone)]
pub struct Started {
    /// Where clients connect.
    pub socket: PathBuf,
    /// Where metrics are, if anywhere.
    pub http: Option<std::net::SocketAddr>,
    /// The disk engine in one line.
    pub io_engine: String,
    /// Shards found in the cache.
    pub cached_shards: u64,
    /// Bytes found in the cache.
    pub cached_bytes: u64,
}

/// Runs the daemon until `stop` is done. `ready` is called once clients can connect.
///
/// # Errors
/// [`DaemonError`] if it cannot start.
pub fn run(
    config: &Config,
    ready: impl FnOnce(&Started),
    stop: impl Future<Output = ()>,
) -> Result<(), DaemonError> {
    raise_open_files();
    let start = |what| move |source| DaemonError::Start { what, source };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(config.serve.threads)
        .thread_name("feedline-serve")
        .enable_all()
        .build()
        .map_err(start("the runtime"))?;
    // Shards are scanned apart from the streams, so that checksums of what comes in never delay what goes out.
    let scanners = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(config.prefetch.threads.div_ceil(PREFETCH_PER_SCANNER).min(MOST_SCANNERS))
        .thread_name("feedline-scan")
        .enable_all()
        .build()
        .map_err(start("the runtime"))?;
    let engine = Engine::build(config, scanners.handle().clone())?;
    let outcome = runtime.block_on(serve(config, &engine, ready, stop));
    // Tasks first: they drop what they hold, and transfers and disk operations under way are answered to nobody.
    runtime.shutdown_timeout(STOP_LIMIT);
    scanners.shutdown_timeout(STOP_LIMIT);
    engine.threads.shutdown();
    engine.ring.shutdown();
    outcome
}

/// Takes as many descriptors as the system allows: a stream needs five, a connection to the store one, a shard in use one.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
    {
        tracing::warn!(%error, limit = limit.current, "the limit on open files cannot be raised");
    }
}

/// Everything below the sockets.
struct Engine {
    ring: Ring,
    threads: Arc<FetchThreads>,
    loader: Loader,
    leases: Leases,
    stores: Stores,
}

impl Engine {
    fn build(config: &Config, runtime: tokio::runtime::Handle) -> Result<Self, DaemonError> {
        let dir = &config.cache.dir;
        make_private_dir(dir).map_err(|source| DaemonError::CacheDir { dir: dir.clone(), source })?;
        let block_bytes = u64::from(config.pool.block_bytes);
        let (slots, in_flight) =
            (config.pool.bytes / block_bytes, config.prefetch.inflight_bytes / block_bytes);
        // Slots for streams and slots in flight together are all there are: see the page of the pool.
        let Some(for_streams) = slots.checked_sub(in_flight).filter(|&left| left > 0) else {
            let (pool, inflight) = (config.pool.bytes, config.prefetch.inflight_bytes);
            return Err(DaemonError::PoolShare { pool, inflight, wanted: inflight + block_bytes });
        };
        let ring = Ring::probe(dir, config.io.engine, config.io.depth)?;
        tracing::info!(engine = %ring.report(), "disk engine");
        let settings = CacheSettings {
            dir: dir.clone(),
            bytes: config.cache.bytes,
            index_bytes: config.cache.index_bytes,
        };
        let cache = Cache::open(settings, ring.clone())?;
        let pool = Pool::create(config.pool.bytes, config.pool.block_bytes)
            .map_err(|source| DaemonError::Pool { bytes: config.pool.bytes, source })?;
        let stores = Stores::new(config.store.clone())?;
        let threads =
            FetchThreads::start(config.prefetch.threads, config.prefetch.requests_per_thread, stores.clone())
                .map_err(|source| DaemonError::Start { what: "the prefetch threads", source })?;
        let threads = Arc::new(threads);
        let loader = Loader::new(LoaderParts {
            pool,
            cache,
            threads: threads.clone(),
            in_flight: ByteBudget::new(in_flight * block_bytes),
            runtime,
            ranges_per_shard: RANGES_PER_SHARD,
        });
        Ok(Self { ring, threads, loader, leases: Leases::new(for_streams), stores })
    }
}

fn make_private_dir(dir: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

async fn serve(
    config: &Config,
    engine: &Engine,
    ready: impl FnOnce(&Started),
    stop: impl Future<Output = ()>,
) -> Result<(), DaemonError> {
    let socket = &config.serve.socket;
    let listener =
        Listener::bind(socket).map_err(|source| DaemonError::Socket { socket: socket.clone(), source })?;
    let block_bytes = engine.loader.block_bytes();
    let dir = &config.cache.dir;
    let jobs = Jobs::new(dir).map_err(|source| DaemonError::CacheDir { dir: dir.join("jobs"), source })?;
    let shared = Arc::new(Shared {
        loader: engine.loader.clone(),
        leases: engine.leases.clone(),
        datasets: Arc::new(Datasets::new(engine.stores.clone(), config.dataset.clone())),
        registry: Arc::new(Registry::default()),
        jobs: Arc::clone(&jobs),
        disk: engine.ring.clone(),
        reporter: Reporter {
            started: Instant::now(),
            socket: socket.display().to_string(),
            prefetch_threads: u32::try_from(config.prefetch.threads).unwrap_or(u32::MAX),
            io_engine: engine.ring.report().to_string(),
        },
        ready: config.batch.ready as u64,
        window: (config.prefetch.window_bytes / block_bytes).max(2),
    });
    let (http_stop, stopped) = tokio::sync::watch::channel(());
    let health = Health::new(&[SERVING]);
    let http = http_port(config, &shared, health.clone(), stopped).await?;
    let usage = engine.loader.parts().cache.usage();
    let started = Started {
        socket: socket.clone(),
        http: http.as_ref().map(|(address, _)| *address),
        io_engine: engine.ring.report().to_string(),
        cached_shards: usage.shards as u64,
        cached_bytes: usage.used,
    };
    ready(&started);
    health.met(SERVING);
    systemd::ready(&format!("serving on {}", socket.display()));
    let watchdog = systemd::feed_watchdog(|| true);
    let writer = tokio::spawn(keep_places(Arc::clone(&jobs)));
    tokio::select! {
        () = listener.serve(shared) => {}
        () = stop => {}
        () = async { watchdog.await; std::future::pending().await } => {}
    }
    systemd::stopping();
    writer.abort();
    health.missing(SERVING, "the daemon is stopping");
    drop(http_stop);
    if let Some((_, server)) = http {
        // An open scrape may hold on; it is not waited for longer than a moment.
        let _ = tokio::time::timeout(Duration::from_secs(1), server).await;
    }
    Ok(())
}

/// Writes down where jobs are. A daemon without streams sleeps on.
async fn keep_places(jobs: Arc<Jobs>) {
    let mut changes = jobs.changes();
    loop {
        if changes.changed().await.is_err() {
            return;
        }
        tokio::time::sleep(jobs::WRITE_EVERY).await;
        changes.borrow_and_update();
        let jobs = Arc::clone(&jobs);
        // A write that panics has told so, and the next one may work.
        let _ = tokio::task::spawn_blocking(move || jobs.write_changed()).await;
    }
}

type HttpServer = tokio::task::JoinHandle<io::Result<()>>;

/// Starts the HTTP port, if one is configured.
async fn http_port(
    config: &Config,
    shared: &Arc<Shared>,
    health: Health,
    mut stopped: tokio::sync::watch::Receiver<()>,
) -> Result<Option<(std::net::SocketAddr, HttpServer)>, DaemonError> {
    let Some(address) = config.telemetry.listen else { return Ok(None) };
    let bind = |source| DaemonError::Http { address, source };
    let listener = TcpListener::bind(address).await.map_err(bind)?;
    let bound = listener.local_addr().map_err(bind)?;
    let exporter = Exporter::install()?;
    let refresh = metrics::refresh(Arc::clone(shared));
    let stop = async move {
        // Ends with an error when the sender is dropped, which is the sign.
        let _ = stopped.changed().await;
    };
    let server = tokio::spawn(http::serve(listener, http::router(exporter, health, refresh), stop));
    Ok(Some((bound, server)))
}
