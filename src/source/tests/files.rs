//! Files end to end.

use super::{content, stores};
use crate::source::{SourceError, SourceUrl, read_range};
use std::fs;

fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("sub/deep")).unwrap();
    for name in ["b.rec", "a.rec", "x [1] 50%#é.rec", "sub/c.rec", "sub/deep/d.rec", "notes.txt"] {
        fs::write(dir.path().join(name), content(3_000_000)).unwrap();
    }
    fs::write(dir.path().join("empty.rec"), b"").unwrap();
    dir
}

async fn names(dir: &tempfile::TempDir, pattern: &str) -> Result<Vec<String>, SourceError> {
    let root = format!("{}/", dir.path().display());
    let url = SourceUrl::parse(&format!("{root}{pattern}")).unwrap();
    let objects = stores("").list(&[url]).await?;
    Ok(objects.iter().map(|object| object.url.strip_prefix("file://").unwrap().replace(&root, "")).collect())
}

#[tokio::test]
async fn patterns_name_files() {
    let dir = tree();
    assert_eq!(names(&dir, "*.rec").await.unwrap(), ["a.rec", "b.rec", "empty.rec", "x [1] 50%#é.rec"]);
    assert_eq!(names(&dir, "sub/").await.unwrap(), ["sub/c.rec", "sub/deep/d.rec"]);
    assert_eq!(names(&dir, "**/d.rec").await.unwrap(), ["sub/deep/d.rec"]);
    assert_eq!(names(&dir, r"x \[1] 50%#é.rec").await.unwrap(), ["x [1] 50%#é.rec"]);
    for (pattern, word) in [
        ("sub", "directory"),
        ("none.rec", "does not exist"),
        ("none/*", "0 objects lie under"),
        ("*.parquet", "7 objects lie under"),
        ("x#12", "rename"),
    ] {
        let error = names(&dir, pattern).await.unwrap_err().to_string();
        assert!(error.contains(word), "{pattern}: {error}");
    }
}

#[tokio::test]
async fn ranges_are_read_and_a_changed_file_is_noticed() {
    let dir = tree();
    let stores = stores("");
    let file = dir.path().join("a.rec");
    let url = SourceUrl::parse(file.to_str().unwrap()).unwrap();
    let object = stores.list(&[url]).await.unwrap().remove(0);
    assert!(object.etag.is_some());
    let store = stores.open(&object.origin).unwrap();
    let mut got = Vec::new();
    read_range(&store, &object, 7..2_999_999, |piece| got.extend_from_slice(piece)).await.unwrap();
    assert!(got == content(3_000_000)[7..2_999_999], "bytes differ");
    read_range(&store, &object, 5..5, |_| panic!("no bytes")).await.unwrap();
    let beyond = read_range(&store, &object, 5..3_000_001, |_| {}).await.unwrap_err();
    assert!(matches!(beyond, SourceError::Unsupported { .. }), "{beyond:?}");

    fs::write(&file, content(2_000_000)).unwrap();
    let error = read_range(&store, &object, 0..100, |_| panic!("old and new would mix")).await.unwrap_err();
    assert!(matches!(error, SourceError::Changed { .. }), "{error:?}");
    fs::remove_file(&file).unwrap();
    let error = read_range(&store, &object, 0..100, |_| {}).await.unwrap_err();
    assert!(matches!(error, SourceError::NotFound { .. }), "{error:?}");
}
