//! `docs/configuration.md`, made from the table of keys.

use std::fmt::Write as _;

use super::keys::SECTIONS;

const HEAD: &str = "\
# Configuration

This page is made by `feedline docs configuration` from the table the daemon itself reads.

Every value can come from three places; a later one wins:

1. a TOML file: the one named by `--config` or `$FEEDLINE_CONFIG`, else `$XDG_CONFIG_HOME/feedline/feedline.toml`
   (ordinary users only; `~/.config` without the variable), else `/etc/feedline/feedline.toml`;
2. the environment: `FEEDLINE_SECTION_KEY`, for example `FEEDLINE_CACHE_BYTES='500 GiB'`;
3. flags: `--set SECTION.KEY=VALUE`, and short forms such as `--cache-bytes` for the common ones.

No file is needed: what nobody says is chosen from the machine. `feedline serve` prints each value in effect with its
origin; `feedline check-config` does the same without starting, and reports every mistake at once.

Sizes are numbers of bytes or text with a unit: `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024, also `K`, `M`, `G`, `T`) or
`KB`, `MB`, `GB`, `TB` (powers of 1000), for example `\"1.5 GiB\"`.
";

/// The whole page.
pub fn configuration_page() -> String {
    let mut page = HEAD.to_owned();
    for section in SECTIONS {
        let name = if section.name == "dataset" { "dataset.NAME" } else { section.name };
        let _ = write!(page, "\n## [{name}]\n\n{}\n", section.help);
        for key in section.keys {
            let unit = if key.unit.is_empty() { String::new() } else { format!(" ({})", key.unit) };
            let _ = write!(page, "\n### `{}`{unit}\n\n{}\n\n", key.name, key.help);
            let _ = write!(page, "- Allowed: {}.\n- Default: {}.\n", key.allowed, key.default);
            if section.name != "dataset" {
                let variable = format!("FEEDLINE_{}_{}", section.name, key.name).to_ascii_uppercase();
                let _ = writeln!(page, "- Variable: `{variable}`.");
            }
        }
    }
    page
}
