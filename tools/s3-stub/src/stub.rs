//! The handle: starts the threads, and lets a test put objects, read the log and change the faults.

use crate::clock::Clock;
use crate::config::StubConfig;
use crate::fault::{FaultPlan, Injector};
use crate::journal::{Counts, Journal, LogEntry};
use crate::objects::{Content, Object, Objects};
use crate::s3::Uploads;
use crate::server::{self, Shared, locked};
use crate::sigv4::{Credentials, KeyRing};
use bytes::Bytes;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, mpsc as sync_mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Why a stub could not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the stub on {listen}; take another address, or port 0 for a free one")]
pub struct StartError {
    listen: SocketAddr,
    source: io::Error,
}

enum Command {
    Down(sync_mpsc::Sender<()>),
    Up(sync_mpsc::Sender<io::Result<()>>),
}

/// A running S3 server. Dropping it stops it and closes every connection.
///
/// All methods may be called from any thread, inside or outside an async runtime.
#[derive(Debug)]
pub struct Stub {
    shared: Arc<Shared>,
    address: SocketAddr,
    commands: Option<mpsc::UnboundedSender<Command>>,
    threads: Vec<JoinHandle<()>>,
}

impl Stub {
    /// Starts a stub.
    ///
    /// # Panics
    /// If the address cannot be listened on; see [`try_start`](Self::try_start).
    pub fn start(config: StubConfig) -> Self {
        Self::try_start(config).expect("a free loopback port can be listened on")
    }

    /// Starts a stub, or says why not.
    pub fn try_start(config: StubConfig) -> Result<Self, StartError> {
        let listen = config.listen;
        Self::launch(config).map_err(|source| StartError { listen, source })
    }

    fn launch(config: StubConfig) -> io::Result<Self> {
        let listener = listen(config.listen)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            objects: Objects::default(),
            uploads: Uploads::default(),
            clock: Clock::default(),
            journal: Arc::new(Journal::new(config.log_limit)),
            keys: Mutex::new(KeyRing::new(config.credentials.clone())),
            injector: Mutex::new(Injector::new(config.faults.clone(), config.seed)),
            config: StubConfig {
                page_size: config.page_size.max(1),
                threads: config.threads.max(1),
                ..config
            },
        });
        shared.clock.set_offset(shared.config.clock_offset);
        for bucket in &shared.config.buckets {
            shared.objects.create_bucket(bucket);
        }
        for (bucket, directory) in &shared.config.directories {
            shared.objects.back_with(bucket, directory.clone());
        }
        let (commands, inbox) = mpsc::unbounded_channel();
        let (outage, outages) = watch::channel(0);
        let mut workers = Vec::new();
        let mut threads = Vec::new();
        for number in 0..shared.config.threads {
            let (sender, connections) = mpsc::unbounded_channel();
            workers.push(sender);
            let work = server::work(shared.clone(), connections, outages.clone());
            threads.push(spawn(format!("s3-stub-{number}"), work)?);
        }
        threads.push(spawn("s3-stub-accept".to_owned(), accept(listener, workers, inbox, outage))?);
        Ok(Self { shared, address, commands: Some(commands), threads })
    }

    /// `http://127.0.0.1:PORT`, the end-point for path style.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `http://BUCKET.DOMAIN:PORT`, the end-point for virtual-hosted style. The name needs a resolver that maps
    /// it to [`address`](Self::address).
    pub fn virtual_url(&self, bucket: &str) -> String {
        format!("http://{bucket}.{}:{}", self.shared.config.domain, self.address.port())
    }

    /// The address listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the stub and waits for its threads.
    pub fn stop(self) {
        drop(self);
    }

    /// Closes the port and every connection; objects, faults and counters stay. Connecting is refused when this
    /// returns.
    pub fn take_down(&self) {
        let (done, wait) = sync_mpsc::channel();
        if self.command(Command::Down(done)) {
            // An error means that the thread has ended, and with it the port.
            let _ = wait.recv();
        }
    }

    /// Listens again on the same port.
    ///
    /// # Errors
    /// If another process has taken the port meanwhile.
    pub fn bring_up(&self) -> io::Result<()> {
        let (done, wait) = sync_mpsc::channel();
        self.command(Command::Up(done));
        wait.recv().unwrap_or_else(|_| Err(io::ErrorKind::NotConnected.into()))
    }

    fn command(&self, command: Command) -> bool {
        self.commands.as_ref().is_some_and(|commands| commands.send(command).is_ok())
    }

    /// Creates an empty bucket, if it does not exist.
    pub fn create_bucket(&self, bucket: &str) {
        self.shared.objects.create_bucket(bucket);
    }

    /// Stores an object, and creates its bucket.
    pub fn put(&self, bucket: &str, key: &str, bytes: impl Into<Bytes>) {
        self.store(bucket, key, Content::Memory(bytes.into()), None);
    }

    /// Stores an object that is served with a `Content-Encoding`. The bytes are served as they are.
    pub fn put_encoded(&self, bucket: &str, key: &str, bytes: impl Into<Bytes>, encoding: &str) {
        self.store(bucket, key, Content::Memory(bytes.into()), Some(encoding.to_owned()));
    }

    /// Stores an object of `len` bytes that repeats `unit` (not empty) and takes no more memory than it.
    ///
    /// # Panics
    /// If `unit` is empty.
    pub fn put_repeated(&self, bucket: &str, key: &str, unit: impl Into<Bytes>, len: u64) {
        let unit = unit.into();
        assert!(!unit.is_empty(), "an object cannot repeat nothing");
        self.store(bucket, key, Content::Repeat { unit, len }, None);
    }

    fn store(&self, bucket: &str, key: &str, content: Content, encoding: Option<String>) {
        let object = Object { encoding, ..Object::new(content, self.shared.clock.now()) };
        self.shared.objects.put(bucket, key, object);
    }

    /// The whole object as stored now. `None` if it does not exist or its file cannot be read.
    pub fn get(&self, bucket: &str, key: &str) -> Option<Bytes> {
        let object = self.shared.objects.get(bucket, key)?;
        let len = object.content.len();
        match &object.content {
            Content::Repeat { unit, .. } => {
                let len = usize::try_from(len).ok()?;
                Some(unit.iter().copied().cycle().take(len).collect())
            }
            other => other.read(0, len).ok(),
        }
    }

    /// The ETag of an object, with its quotes.
    pub fn etag(&self, bucket: &str, key: &str) -> Option<String> {
        self.shared.objects.get(bucket, key).map(|object| object.etag.clone())
    }

    /// Removes an object; `false` if there was none. A file behind it stays, hidden.
    pub fn remove(&self, bucket: &str, key: &str) -> bool {
        self.shared.objects.remove(bucket, key)
    }

    /// Multipart uploads that were neither completed nor given up.
    pub fn open_uploads(&self) -> usize {
        self.shared.uploads.open()
    }

    /// Replaces the accepted keys; an empty list lets everybody in. Temporary keys that are no longer in the
    /// list are answered `ExpiredToken`, others `InvalidAccessKeyId`.
    pub fn set_credentials(&self, credentials: impl IntoIterator<Item = Credentials>) {
        locked(&self.shared.keys).replace(credentials.into_iter().collect());
    }

    /// Moves the stub's clock: seconds ahead of the machine's.
    pub fn set_clock_offset(&self, seconds: i64) {
        self.shared.clock.set_offset(seconds);
    }

    /// Replaces the fault plan; its rules count from zero. Replies under way keep their faults.
    pub fn set_faults(&self, plan: impl Into<FaultPlan>) {
        *locked(&self.shared.injector) = Injector::new(plan.into(), self.shared.config.seed);
    }

    /// Every request since the start or the last reset, in order of arrival, as far as the log reaches.
    pub fn log(&self) -> Vec<LogEntry> {
        self.shared.journal.log()
    }

    /// Sums since the start or the last reset.
    pub fn counts(&self) -> Counts {
        self.shared.journal.counts()
    }

    /// Zeroes the sums and empties the log. Request and connection numbers go on.
    pub fn reset_counts(&self) {
        self.shared.journal.reset();
    }

    /// Waits until the sums satisfy `done`; `false` after `timeout`. Blocks the thread.
    pub fn wait_until(&self, timeout: Duration, done: impl FnMut(&Counts) -> bool) -> bool {
        self.shared.journal.wait_until(timeout, done)
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        // The acceptor ends with its commands, the workers with the acceptor.
        self.commands = None;
        for thread in self.threads.drain(..) {
            // A panic has been printed by its thread already.
            let _ = thread.join();
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn spawn(name: String, work: impl Future<Output = ()> + Send + 'static) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name(name).spawn(move || runtime.block_on(work))
}

/// Accepts connections and deals them out, until there is nobody left to send a command.
async fn accept(
    listener: TcpListener,
    workers: Vec<mpsc::UnboundedSender<std::net::TcpStream>>,
    mut commands: mpsc::UnboundedReceiver<Command>,
    outage: watch::Sender<u64>,
) {
    let address = listener.local_addr();
    let mut listener = tokio::net::TcpListener::from_std(listener).ok();
    let mut turn = 0;
    loop {
        let next = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            command = commands.recv() => match command {
                None => return,
                Some(Command::Down(done)) => {
                    listener = None;
                    outage.send_modify(|n| *n += 1);
                    // The caller may have stopped waiting.
                    let _ = done.send(());
                }
                Some(Command::Up(done)) => {
                    let again = address.as_ref().map_err(|e| e.kind().into()).and_then(|a| listen(*a));
                    let result = again.and_then(tokio::net::TcpListener::from_std);
                    let _ = done.send(result.map(|new| listener = Some(new)));
                }
            },
            accepted = next => match accepted.and_then(|(stream, _)| stream.into_std()) {
                Ok(stream) => {
                    turn = (turn + 1) % workers.len();
                    // Fails only while the stub is being stopped.
                    let _ = workers[turn].send(stream);
                }
                Err(cause) => {
                    tracing::warn!(%cause, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
        }
    }
}
