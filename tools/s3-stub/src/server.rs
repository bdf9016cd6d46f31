//! One request from arrival to reply, and the threads that do it.
//!
//! The first thread accepts and deals connections out in turn; each thread runs its connections on a
//! single-threaded runtime. The order within a request: address, signature, faults, then the S3 operation, so a
//! request that is wrongly signed is refused whatever the fault plan says.

use crate::body::{Meter, ReplyBody};
use crate::clock::{self, Clock};
use crate::config::StubConfig;
use crate::conn::{Conn, TapIo};
use crate::fault::{Effects, Ending, Injector};
use crate::journal::{Journal, LogEntry};
use crate::objects::{Content, Object, Objects};
use crate::s3::{self, Address, Operation, Reply, S3Error, Uploads};
use crate::sigv4::{self, KeyRing};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

/// Everything the threads and the handle share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: StubConfig,
    pub(crate) objects: Objects,
    pub(crate) uploads: Uploads,
    pub(crate) clock: Clock,
    pub(crate) journal: Arc<Journal>,
    pub(crate) keys: Mutex<KeyRing>,
    pub(crate) injector: Mutex<Injector>,
}

/// Locks a value whose users leave it whole even when they panic.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn anonymous(&self) -> bool {
        locked(&self.keys).valid.is_empty()
    }

    fn authorise(&self, address: &Address, parts: &Parts) -> Result<(), S3Error> {
        if self.config.virtual_only && !address.virtual_hosted {
            return Err(S3Error::new(403, "InvalidPathAccess", "Forbidden path to access server"));
        }
        sigv4::verify(parts, &locked(&self.keys), self.config.region.as_deref(), self.clock.now())
    }

    /// Does to the object what the fault plan wants done after the request.
    fn aftermath(&self, address: &Address, effects: &Effects) -> io::Result<()> {
        let (bucket, key) = (&address.bucket, &address.key);
        if effects.change
            && let Some(object) = self.objects.get(bucket, key)
        {
            let invert = |bytes: &Bytes| bytes.iter().map(|b| !b).collect::<Bytes>();
            let content = match &object.content {
                Content::Repeat { unit, len } => Content::Repeat { unit: invert(unit), len: *len },
                other => Content::Memory(invert(&other.read(0, other.len())?)),
            };
            self.objects.put(bucket, key, Object::new(content, self.clock.now()));
        }
        if effects.remove {
            self.objects.remove(bucket, key);
        }
        Ok(())
    }
}

/// Serves the connections that come in until the sender is gone.
pub(crate) async fn work(
    shared: Arc<Shared>,
    mut connections: mpsc::UnboundedReceiver<std::net::TcpStream>,
    outage: watch::Receiver<u64>,
) {
    while let Some(stream) = connections.recv().await {
        let (shared, outage) = (shared.clone(), outage.clone());
        tokio::spawn(async move {
            if let Err(cause) = serve(shared, stream, outage).await {
                tracing::debug!(%cause, "connection ended early");
            }
        });
    }
}

async fn serve(
    shared: Arc<Shared>,
    stream: std::net::TcpStream,
    mut outage: watch::Receiver<u64>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    outage.mark_unchanged();
    let stream = TcpStream::from_std(stream)?;
    stream.set_nodelay(true)?;
    let conn = Conn::new(shared.journal.connected());
    let io = TokioIo::new(TapIo::new(stream, conn.clone()));
    let service = service_fn(move |request| handle(shared.clone(), conn.clone(), request));
    let mut http = hyper::server::conn::http1::Builder::new();
    // A client may keep a connection idle for as long as it likes.
    http.header_read_timeout(None);
    tokio::select! {
        result = http.serve_connection(io, service) => result?,
        // Also when the stub is gone.
        _ = outage.changed() => {}
    }
    Ok(())
}

/// Answers one request. An error closes the connection without an answer.
async fn handle(
    shared: Arc<Shared>,
    conn: Arc<Conn>,
    request: Request<Incoming>,
) -> io::Result<Response<ReplyBody>> {
    let (parts, body) = request.into_parts();
    let address = Address::of(&parts, &shared.config.domain);
    let number = shared.journal.arrived(entry(&parts, address.as_ref().ok(), &conn));
    let operation = address.as_ref().ok().map(|a| a.operation);
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    shared.journal.received(body.len() as u64);

    let mut effects = Effects::default();
    let answer = match address.and_then(|address| shared.authorise(&address, &parts).map(|()| address)) {
        Err(refused) => Err(refused),
        Ok(address) => {
            let range = parts.headers.get("range").map_or("", |v| v.to_str().unwrap_or(""));
            effects = locked(&shared.injector).decide(address.operation, selectable(&address), range);
            shared.journal.faulted(number, std::mem::take(&mut effects.names));
            sleep(effects.latency).await;
            let answer = match effects.ending.take() {
                None => s3::answer(&shared, &address, &parts, body, &effects),
                Some(Ending::Error(error)) => Err(error),
                Some(Ending::ErrorIn200(error)) => Ok(Reply::of_error(&error, 200, number)),
                Some(Ending::Silence(length)) => {
                    sleep(length).await;
                    return Err(io::Error::other("kept silent by a fault rule"));
                }
                Some(Ending::Close { reset }) => {
                    if reset {
                        conn.reset_on_close();
                    }
                    return Err(io::Error::other("closed by a fault rule"));
                }
            };
            shared.aftermath(&address, &effects)?;
            answer
        }
    };
    let code = answer.as_ref().err().map(|error| error.code.clone());
    let reply = answer.unwrap_or_else(|error| Reply::of_error(&error, error.status, number));
    shared.journal.answered(number, reply.status, code);
    let meter = Meter { journal: shared.journal.clone(), number, operation, sent: 0, length: 0 };
    send(&shared, &parts, reply, effects, conn, meter)
}

/// What a rule's key pattern is compared with.
fn selectable(address: &Address) -> &str {
    match address.operation {
        Operation::List => address.param("prefix").unwrap_or(""),
        _ => &address.key,
    }
}

fn entry(parts: &Parts, address: Option<&Address>, conn: &Conn) -> LogEntry {
    let header = |name: &str| parts.headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
    LogEntry {
        connection: conn.number,
        method: parts.method.to_string(),
        operation: address.map(|a| a.operation),
        bucket: address.map_or_else(String::new, |a| a.bucket.clone()),
        key: address.map_or_else(|| parts.uri.path().to_owned(), |a| selectable(a).to_owned()),
        query: parts.uri.query().unwrap_or("").to_owned(),
        range: header("range"),
        if_match: header("if-match"),
        ..LogEntry::default()
    }
}

fn send(
    shared: &Shared,
    parts: &Parts,
    mut reply: Reply,
    mut effects: Effects,
    conn: Arc<Conn>,
    mut meter: Meter,
) -> io::Result<Response<ReplyBody>> {
    let range = &mut reply.range;
    if effects.empty {
        range.end = range.start;
    }
    range.end = range.end.saturating_sub(effects.short_by).max(range.start);
    let length = range.end - range.start;
    let draws = effects.body.random_flips.iter().filter(|_| length > 0);
    effects.body.flips.extend(draws.map(|draw| range.start + draw % length));
    effects.body.random_flips.clear();

    let mut response = Response::builder()
        .status(reply.status)
        .header("date", clock::http_date(shared.clock.now()))
        .header("server", "feedline-s3-stub")
        .header("x-amz-request-id", format!("{:016X}", meter.number));
    for (name, value) in reply.headers.iter().filter(|(name, _)| !(effects.drop_etag && *name == "etag")) {
        response = response.header(*name, value);
    }
    if !effects.chunked && !matches!(reply.status, 204 | 304) {
        response = response.header("content-length", length);
    }
    if parts.method == hyper::Method::HEAD {
        range.end = range.start;
    }
    meter.length = range.end - range.start;
    let body = ReplyBody::new(reply.content, reply.range, effects.body, conn, meter);
    response.body(body).map_err(io::Error::other)
}
