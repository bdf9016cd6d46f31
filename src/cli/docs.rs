//! `feedline docs`: the pages that are made from code.

use super::args::Page;
use super::{OK, Output};

pub(super) fn run(page: Page, output: &mut Output<'_>) -> anyhow::Result<u8> {
    let text = match page {
        Page::Configuration => crate::config::configuration_page(),
        Page::Metrics => crate::telemetry::metrics_page(),
    };
    output.text().write_all(text.as_bytes())?;
    Ok(OK)
}
