//! Making a ring that is known to work, or saying why there is none.

use std::io;

use io_uring::{IoUring, Probe, opcode};
use rustix::io::Errno;

use super::super::probe::words;

/// The operations in use, all there since Linux 5.6.
const NEEDED: [(u8, &str); 3] =
    [(opcode::Read::CODE, "READ"), (opcode::Write::CODE, "WRITE"), (opcode::Fsync::CODE, "FSYNC")];

/// A ring for `depth` operations and one for waking, to be used by the calling thread only.
pub(super) fn ring(depth: u32) -> Result<IoUring, String> {
    let entries = (depth + 1).next_power_of_two();
    let mut builder = IoUring::builder();
    // Completions are handled when this thread asks for them, without interrupting it: Linux 6.1 and later.
    builder.setup_single_issuer().setup_defer_taskrun();
    let mut ring = match builder.build(entries) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => IoUring::new(entries),
        made => made,
    }
    .map_err(|error| reason("io_uring_setup", &error))?;

    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).map_err(|error| reason("io_uring_register", &error))?;
    let missing: Vec<_> =
        NEEDED.iter().filter(|(code, _)| !probe.is_supported(*code)).map(|(_, name)| *name).collect();
    if !missing.is_empty() {
        return Err(format!("io_uring lacks {} (Linux 5.6 has them)", missing.join(", ")));
    }
    round_trip(&mut ring).map_err(|error| reason("io_uring_enter", &error))?;
    Ok(ring)
}

/// A filter may allow one of the system calls and not the other, so one empty operation is run.
fn round_trip(ring: &mut IoUring) -> io::Result<()> {
    // SAFETY: the operation names no memory and no file.
    let pushed = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
    pushed.map_err(io::Error::other)?;
    loop {
        match ring.submit_and_wait(1) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    ring.completion().next().map(drop).ok_or_else(|| io::Error::other("no completion came back"))
}

/// What failed, in the system's words, and what is commonly behind it.
fn reason(call: &str, error: &io::Error) -> String {
    let cause = match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => " (container seccomp profile or kernel.io_uring_disabled)",
        Some(Errno::NOSYS) => " (no io_uring in this kernel or sandbox)",
        Some(Errno::NOMEM) => " (limit of locked memory: ulimit -l, LimitMEMLOCK)",
        Some(Errno::INVAL) => " (kernel older than Linux 5.6)",
        Some(Errno::MFILE | Errno::NFILE) => " (limit of open files: ulimit -n, LimitNOFILE)",
        _ => "",
    };
    format!("{call}: {}{cause}", words(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_call_error_and_usual_cause() {
        assert_eq!(
            reason("io_uring_setup", &Errno::PERM.into()),
            "io_uring_setup: operation not permitted (container seccomp profile or kernel.io_uring_disabled)"
        );
        assert_eq!(
            reason("io_uring_setup", &Errno::NOMEM.into()),
            "io_uring_setup: cannot allocate memory (limit of locked memory: ulimit -l, LimitMEMLOCK)"
        );
        assert!(
            reason("io_uring_setup", &Errno::NOSYS.into())
                .ends_with("(no io_uring in this kernel or sandbox)")
        );
        assert_eq!(reason("io_uring_enter", &Errno::IO.into()), "io_uring_enter: input/output error");
    }
}
