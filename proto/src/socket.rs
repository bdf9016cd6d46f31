//! Messages with file descriptors over a Unix stream socket.
//!
//! Descriptors travel as `SCM_RIGHTS` beside the first byte of a message. The receive buffer is sized for
//! [`MAX_DESCRIPTORS`]: the kernel installs descriptors before it tells that the control buffer was too small, so a
//! truncated control message would leak them; it is therefore an error that ends the connection.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most descriptors that one message may carry.
pub const MAX_DESCRIPTORS: usize = 32;

/// Sends a prefix of `bytes`, with the descriptors beside its first byte. Returns how many bytes went.
///
/// # Errors
/// As `sendmsg(2)`; `InvalidInput` for more than [`MAX_DESCRIPTORS`].
pub fn send_with_descriptors(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    if descriptors.len() > MAX_DESCRIPTORS {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
        debug_assert!(fits, "the buffer is sized for MAX_DESCRIPTORS");
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Receives some bytes and the descriptors that came with them (close-on-exec).
///
/// # Errors
/// As `recvmsg(2)`; `InvalidData` if the peer sent more descriptors than [`MAX_DESCRIPTORS`].
pub fn receive_with_descriptors(
    socket: impl AsFd,
    buffer: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => continue,
            other => break other?,
        }
    };
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            descriptors.extend(fds);
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the peer sent too many descriptors"));
    }
    Ok(received.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn descriptors_arrive_usable() {
        let (left, right) = UnixStream::pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        assert_eq!(send_with_descriptors(&left, b"x", &[writer.as_fd()]).unwrap(), 1);
        drop(writer);
        let (mut buffer, mut fds) = ([0; 8], Vec::new());
        assert_eq!(receive_with_descriptors(&right, &mut buffer, &mut fds).unwrap(), 1);
        rustix::io::write(&fds[0], b"through").unwrap();
        fds.clear();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }
}
