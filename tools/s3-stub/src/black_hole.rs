//! An address where connecting neither succeeds nor fails.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// A listening port whose queue is full, so that the kernel drops further connection requests: what a client sees
/// when a firewall swallows its packets.
#[derive(Debug)]
pub struct BlackHole {
    address: SocketAddr,
    _queued: Vec<TcpStream>,
    _listener: TcpListener,
}

impl BlackHole {
    /// Opens one on a free loopback port.
    ///
    /// # Errors
    /// If the port cannot be opened, or the kernel takes more connections than its queue has places for.
    pub fn open() -> io::Result<Self> {
        // On a thread of its own: a caller inside a runtime may not drop another one.
        let listener =
            std::thread::spawn(short_queue).join().map_err(|_| io::Error::other("no listener"))??;
        let address = listener.local_addr()?;
        let mut queued = Vec::new();
        for _ in 0..16 {
            match TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
                Ok(stream) => queued.push(stream),
                Err(cause) if cause.kind() == io::ErrorKind::TimedOut => {
                    return Ok(Self { address, _queued: queued, _listener: listener });
                }
                Err(cause) => return Err(cause),
            }
        }
        Err(io::Error::other("the kernel does not limit the queue of a listening socket"))
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// A listening socket whose queue has the fewest places; the standard library always takes 128.
fn short_queue() -> io::Result<TcpListener> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _inside = runtime.enter();
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    socket.listen(1)?.into_std()
}
