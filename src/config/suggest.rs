//! "Did you mean": the nearest known name.

/// The name among `known` that differs from `word` by a few typing errors, if there is one.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase().replace('-', "_");
    let bound = (word.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|name| (distance(&word, name), name))
        .filter(|&(edits, name)| edits <= bound || (word.len() >= 3 && name.starts_with(&word)))
        .min()
        .map(|(_, name)| name)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_found_and_strangers_are_not() {
        let known = ["bytes", "block_bytes", "dir", "index_bytes"];
        for (word, name) in
            [("byets", "bytes"), ("block-bytes", "block_bytes"), ("blok_bytes", "block_bytes")]
        {
            assert_eq!(nearest(word, known), Some(name), "{word}");
        }
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("", known), None);
    }
}
