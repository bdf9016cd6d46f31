//! The generated types in the tree are what the `.proto` file says. Set `FEEDLINE_REGENERATE=1` to write them.

use std::path::Path;

#[test]
fn generated_types_match_the_proto_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let descriptors = protox::compile([root.join("proto/feedline.proto")], [root.join("proto")]).unwrap();
    let out = tempfile::tempdir().unwrap();
    prost_build::Config::new().out_dir(out.path()).compile_fds(descriptors).unwrap();
    let fresh = std::fs::read_to_string(out.path().join("feedline.v1.rs")).unwrap();
    let kept = root.join("src/generated.rs");
    if std::env::var_os("FEEDLINE_REGENERATE").is_some() {
        std::fs::write(&kept, &fresh).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&kept).unwrap_or_default(),
        fresh,
        "run this test once with FEEDLINE_REGENERATE=1 and commit src/generated.rs"
    );
}
