//! A web server that answers from a script: one closure decides about every request.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as far as tests look at it.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// 0 for the first request of the server.
    pub(crate) number: usize,
    pub(crate) method: String,
    /// Path and query, as sent.
    pub(crate) target: String,
    headers: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let name = format!("{name}:");
        let line = self.headers.lines().find(|line| line.to_ascii_lowercase().starts_with(&name))?;
        Some(line[name.len()..].trim())
    }

    /// First and last byte of the `Range` header.
    pub(crate) fn range(&self) -> Option<(usize, usize)> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    }
}

/// What to answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// Announce the whole body, send this much, and close.
    pub(crate) cut: Option<usize>,
    /// Announce the whole body, send this much, and then nothing until the client hangs up.
    pub(crate) stall: Option<usize>,
}

impl Reply {
    pub(crate) fn status(status: u16, body: &str) -> Self {
        Self { status, body: body.as_bytes().to_vec(), ..Self::default() }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// `whole`, or the asked range of it, with an ETag.
    pub(crate) fn object(request: &Request, whole: &[u8], etag: &str) -> Self {
        let reply = match request.range() {
            Some((first, last)) => Self {
                status: 206,
                headers: vec![("Content-Range", format!("bytes {first}-{last}/{}", whole.len()))],
                body: whole[first..=last].to_vec(),
                ..Self::default()
            },
            None => Self { status: 200, body: whole.to_vec(), ..Self::default() },
        };
        let reply = reply.header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT");
        if etag.is_empty() { reply } else { reply.header("ETag", etag) }
    }
}

/// The server; its threads end with the process.
pub(crate) struct Server {
    pub(crate) address: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub(crate) fn start(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        let script = Arc::new(script);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (script, log) = (script.clone(), log.clone());
                std::thread::spawn(move || answer(stream.unwrap(), &*script, &log));
            }
        });
        Self { address, seen }
    }

    /// Requests so far.
    pub(crate) fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    /// Settings for S3 at this server.
    pub(crate) fn settings(&self) -> String {
        format!(
            "[default]\nendpoint = 'http://{}'\naccess_key = 'k'\nsecret_key = 's'\nstall_timeout = '300ms'\n",
            self.address
        )
    }
}

fn answer(mut stream: TcpStream, script: &dyn Fn(&Request) -> Reply, log: &Mutex<Vec<Request>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut first = String::new();
    if reader.read_line(&mut first).unwrap_or(0) == 0 {
        return;
    }
    let mut headers = String::new();
    while reader.read_line(&mut headers).unwrap_or(0) > 2 {}
    let mut words = first.split_whitespace();
    let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
    let request = {
        let mut log = log.lock().unwrap();
        let request = Request { number: log.len(), method, target, headers };
        log.push(request.clone());
        request
    };
    let reply = script(&request);
    let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    write!(head, "Content-Length: {}\r\n\r\n", reply.body.len()).unwrap();
    // A client that hangs up early is part of the tests.
    let _ = stream.write_all(head.as_bytes());
    if request.method == "HEAD" {
        return;
    }
    let sent = reply.cut.or(reply.stall).unwrap_or(reply.body.len());
    let _ = stream.write_all(&reply.body[..sent]);
    if reply.stall.is_some() {
        let _ = reader.read(&mut [0]);
    }
}
