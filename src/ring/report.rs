//! What the probe found, in words.

use std::fmt;

use super::probe::Direct;

/// What [`Ring::probe`](super::Ring::probe) chose. `Display` is one line for the log and for `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbeReport {
    /// `"io_uring"` or `"threads"`.
    pub engine: &'static str,
    /// Files bypass the page cache (O_DIRECT).
    pub direct: bool,
    /// File offsets and lengths of direct files are multiples of this, in bytes. 1 when not direct.
    pub offset_align: u32,
    /// Addresses for direct files are multiples of this, in bytes. 1 when not direct; never above 4,096.
    pub memory_align: u32,
    /// Name of the directory's file system, such as `ext4`.
    pub file_system: String,
    /// Why the engine, then why the mode, is not the best one. Empty when both are.
    pub why: Vec<String>,
}

impl ProbeReport {
    pub(super) fn new(engine: &'static str, direct: Direct, mut why: Vec<String>) -> Self {
        why.extend(direct.why);
        let (offset_align, memory_align) = direct.alignment.unwrap_or((1, 1));
        ProbeReport {
            engine,
            direct: direct.alignment.is_some(),
            offset_align,
            memory_align,
            file_system: direct.file_system,
            why,
        }
    }
}

impl fmt::Display for ProbeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.engine == "threads" { "thread pool" } else { self.engine })?;
        if self.direct {
            write!(f, ", O_DIRECT (alignment {})", self.offset_align)?;
        } else {
            f.write_str(", buffered")?;
        }
        if !self.why.is_empty() {
            write!(f, ": {}", self.why.join("; "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direct(alignment: Option<(u32, u32)>, why: Option<&str>) -> Direct {
        Direct { alignment, file_system: "ext4".to_owned(), why: why.map(str::to_owned) }
    }

    #[test]
    fn the_best_case_needs_no_reason() {
        let report = ProbeReport::new("io_uring", direct(Some((512, 4)), None), Vec::new());
        assert_eq!(report.to_string(), "io_uring, O_DIRECT (alignment 512)");
    }

    #[test]
    fn both_reasons_are_on_the_line() {
        let why = vec!["io_uring_setup: operation not permitted".to_owned()];
        let report = ProbeReport::new("threads", direct(None, Some("tmpfs has no O_DIRECT")), why);
        assert_eq!(
            report.to_string(),
            "thread pool, buffered: io_uring_setup: operation not permitted; tmpfs has no O_DIRECT"
        );
        assert_eq!((report.offset_align, report.memory_align), (1, 1));
    }
}
