//! An error and its causes, each said once.

use crate::telemetry::parts;
use std::error::Error;
use std::io::{self, Write};

/// Writes `error: ...` and a line for each cause that the line above does not already contain.
///
/// # Errors
/// What the writer reports.
pub fn write_chain(out: &mut dyn Write, error: &(dyn Error + 'static)) -> io::Result<()> {
    writeln!(out, "error: {}", parts(error).join("\n  caused by: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    #[test]
    fn each_cause_is_said_once() {
        let layer = |text, source| Layer { text, source };
        let deepest = layer("connection refused", None);
        let wrapper = layer("request failed: connection refused", Some(Box::new(deepest)));
        let top = layer("s3://b/k cannot be read", Some(Box::new(wrapper)));
        let mut out = Vec::new();
        write_chain(&mut out, &top).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "error: s3://b/k cannot be read\n  caused by: request failed: connection refused\n");
    }
}
