use super::*;

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn written_bytes_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let ring = Ring::probe(dir.path(), EngineChoice::Threads, 4).unwrap();
    let file = ring.create(&dir.path().join("f")).unwrap();
    block_on(async {
        let mut buf = AlignedBuf::new(8192);
        buf.as_mut_slice().fill(7);
        let (result, buf) = ring.write_at(&file, 0, buf, 0, 8192).await;
        result.unwrap();
        ring.sync(&file).await.unwrap();
        let (result, buf) = ring.read_at(&file, 4096, buf, 0, 8192).await;
        assert_eq!(result.unwrap(), 4096);
        assert!(buf.as_slice()[..4096].iter().all(|byte| *byte == 7));
    });
    assert_eq!(ring.in_flight(), 0);
    ring.shutdown();
}
