//! A client that hides nothing: it reports how the connection ended and every byte before.

use feedline_s3_stub::Stub;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With its last byte.
    Whole,
    /// Early, by a close.
    Fin,
    /// Early, by a reset.
    Reset,
}

/// A reply, as far as it came; status 0 if nothing did.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    head: String,
    pub body: Vec<u8>,
    pub end: End,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "))
            .find(|(n, _)| *n == name)
            .map(|(_, v)| v)
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// A keep-alive connection.
pub struct Wire(TcpStream);

impl Wire {
    pub fn connect(stub: &Stub) -> Self {
        let stream = TcpStream::connect(stub.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(stream)
    }

    pub fn get(&mut self, target: &str, headers: &[(&str, &str)]) -> Reply {
        self.request("GET", target, headers)
    }

    pub fn request(&mut self, method: &str, target: &str, headers: &[(&str, &str)]) -> Reply {
        self.send(method, target, headers, b"")
    }

    pub fn send(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.write(method, target, headers, body);
        self.read(method == "HEAD", usize::MAX)
    }

    /// Reads so much of the body and leaves the rest.
    pub fn get_until(&mut self, target: &str, bytes: usize) -> Reply {
        self.write("GET", target, &[], b"");
        self.read(false, bytes)
    }

    fn write(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut head =
            format!("{method} {target} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        self.0.write_all(&[head.as_bytes(), body].concat()).unwrap();
    }

    fn read(&mut self, no_body: bool, most: usize) -> Reply {
        let mut reply = Reply { status: 0, head: String::new(), body: Vec::new(), end: End::Whole };
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match self.0.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                Ok(_) => reply.end = End::Fin,
                Err(cause) => reply.end = end_of(&cause),
            }
            if reply.end != End::Whole {
                return reply;
            }
        }
        reply.head = String::from_utf8(head).unwrap();
        reply.status = reply.head.split(' ').nth(1).unwrap().parse().unwrap();
        let length: usize = reply.header("content-length").map_or(0, |n| n.parse().unwrap());
        let wanted = if no_body { 0 } else { length.min(most) };
        let mut buffer = vec![0; 64 * 1024];
        while reply.body.len() < wanted {
            let room = buffer.len().min(wanted - reply.body.len());
            match self.0.read(&mut buffer[..room]) {
                Ok(0) => reply.end = End::Fin,
                Ok(n) => reply.body.extend_from_slice(&buffer[..n]),
                Err(cause) => reply.end = end_of(&cause),
            }
            if reply.end != End::Whole {
                break;
            }
        }
        reply
    }
}

fn end_of(cause: &std::io::Error) -> End {
    assert_eq!(cause.kind(), ErrorKind::ConnectionReset, "{cause}");
    End::Reset
}
