//! The report as a table: one column per epoch and one for the total.

use super::report::{EpochReport, Quantiles, Report};
use crate::units::{bytes, count, float, micros};
use comfy_table::{CellAlignment, Table, presets};
use std::io::{self, Write};

/// Epochs with a column of their own: the first and the last ones.
const COLUMNS: usize = 6;

type Row = (&'static str, fn(&EpochReport) -> String);

const ROWS: &[Row] = &[
    ("seconds", |e| format!("{:.2}", e.seconds)),
    ("records", |e| e.records.to_string()),
    ("bytes", |e| bytes(float(e.bytes))),
    ("bytes/s", |e| bytes(e.bytes_per_second)),
    ("records/s", |e| count(e.records_per_second)),
    ("time waited", |e| format!("{:.1} %", e.wait.share_of_time * 100.0)),
    ("time computed", |e| format!("{:.1} %", e.compute_share_of_time * 100.0)),
    ("ready at once", |e| e.wait.ready.calls.to_string()),
    ("  p50 / p90", |e| low(&e.wait.ready)),
    ("  p99 / max", |e| high(&e.wait.ready)),
    ("had to wait", |e| e.wait.waited.calls.to_string()),
    ("  p50 / p90", |e| low(&e.wait.waited)),
    ("  p99 / max", |e| high(&e.wait.waited)),
    ("client CPU s/GB", |e| format!("{:.3}", e.client_cpu_seconds_per_gb)),
    ("daemon CPU s/GB", |e| format!("{:.3}", e.daemon_cpu_seconds_per_gb)),
    ("store requests", |e| e.daemon.store_requests.to_string()),
    ("store bytes", |e| bytes(float(e.daemon.store_bytes))),
    ("cache bytes read", |e| bytes(float(e.daemon.cache_read_bytes))),
    ("blocks from memory", |e| e.daemon.pool_hits.to_string()),
];

fn low(calls: &Quantiles) -> String {
    pair(calls, calls.p50_us, calls.p90_us)
}

fn high(calls: &Quantiles) -> String {
    pair(calls, calls.p99_us, calls.max_us)
}

fn pair(calls: &Quantiles, first: f64, second: f64) -> String {
    if calls.calls == 0 { "-".to_owned() } else { format!("{} / {}", micros(first), micros(second)) }
}

/// Writes the report for people.
///
/// # Errors
/// Those of `out`.
pub fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "{} ranks, batches of {}, {}, daemon {} ({})",
        report.clients, report.batch_size, report.dataset, report.daemon_version, report.io_engine
    )?;
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    let shown: Vec<&EpochReport> = if report.epochs.len() <= COLUMNS {
        report.epochs.iter().collect()
    } else {
        let last = report.epochs.len() - COLUMNS / 2;
        report.epochs[..COLUMNS / 2].iter().chain(&report.epochs[last..]).collect()
    };
    let columns: Vec<&EpochReport> = shown.into_iter().chain(&report.total).collect();
    let head = |epoch: &&EpochReport| epoch.epoch.map_or("total".to_owned(), |n| format!("epoch {}", n + 1));
    table.set_header(std::iter::once(String::new()).chain(columns.iter().map(head)));
    for (name, text) in ROWS {
        table.add_row(std::iter::once((*name).to_owned()).chain(columns.iter().map(|epoch| text(epoch))));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(out, "{table}")?;
    if let Some(found) = &report.verification {
        if found.ok {
            writeln!(out, "verified: {} records, each the one that was written", found.records)?;
        } else {
            writeln!(out, "VERIFICATION FAILED: {} problems in {} records", found.problems, found.records)?;
        }
        for text in &found.described {
            writeln!(out, "  {text}")?;
        }
        let more = found.problems.saturating_sub(found.described.len() as u64);
        if more > 0 && !found.described.is_empty() {
            writeln!(out, "  and {more} more")?;
        }
    }
    Ok(())
}
