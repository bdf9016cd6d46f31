//! Where commands write.

use std::io::{self, Write};

use serde::Serialize;

/// Standard output for results and standard error for notes, with the choice between text and JSON.
pub struct Output<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    json: bool,
}

impl<'a> Output<'a> {
    /// Results go to `out`, notes to `err`.
    pub fn new(out: &'a mut dyn Write, err: &'a mut dyn Write, json: bool) -> Self {
        Self { out, err, json }
    }

    /// Whether the result is to be one JSON document.
    pub fn json(&self) -> bool {
        self.json
    }

    /// For the result as text.
    pub fn text(&mut self) -> &mut dyn Write {
        self.out
    }

    /// For everything that is not the result.
    pub fn notes(&mut self) -> &mut dyn Write {
        self.err
    }

    /// Writes the result as JSON.
    ///
    /// # Errors
    /// What the writer reports.
    pub fn document(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *self.out, value)?;
        writeln!(self.out)
    }

    /// Flushes; a result that could not be written makes success a failure.
    pub(super) fn finish(self, code: u8) -> u8 {
        match self.out.flush() {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe && code == super::OK => super::FAILED,
            _ => code,
        }
    }
}
