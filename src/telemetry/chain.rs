//! An error with its causes, each said once.

use std::error::Error;

/// The error and its causes in one line.
pub fn one_line(error: &(dyn Error + 'static)) -> String {
    parts(error).join(": ")
}

/// The text of the error and of each cause that the one above does not already contain.
pub fn parts(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut parts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Layers below us often repeat what they wrap.
        if parts.last().is_some_and(|last| !last.contains(&text)) {
            parts.push(text);
        }
        cause = error.source();
    }
    parts
}
