//! What is read and written.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Against a vector, with steps so small that most transfers take several system calls.
    #[test]
    fn any_writes_read_back(writes in prop::collection::vec((0..20_000u64, 0..9_000usize), 1..12)) {
        for_each_engine(4, 1000, |bench| {
            let file = bench.buffered("f");
            let mut model = Vec::new();
            block_on(async {
                for (number, (offset, len)) in writes.iter().copied().enumerate() {
                    let bytes = pattern(number as u64, len);
                    let start = usize::try_from(offset).unwrap();
                    if len > 0 {
                        model.resize(model.len().max(start + len), 0);
                        model[start..start + len].copy_from_slice(&bytes);
                    }
                    // The bytes sit at an odd place of a larger buffer.
                    let mut buf = AlignedBuf::new(len + 7);
                    buf.as_mut_slice()[7..].copy_from_slice(&bytes);
                    bench.ring.write_at(&file, offset, buf, 7, len).await.0.unwrap();
                }
                bench.ring.sync(&file).await.unwrap();
                let (read, buf) = bench.ring.read_at(&file, 0, AlignedBuf::new(30_001), 1, 30_000).await;
                assert_eq!(read.unwrap(), model.len());
                assert!(buf.as_slice()[1..=model.len()] == model);
            });
            assert_eq!(bench.ring.in_flight(), 0);
        });
    }
}

#[test]
fn a_read_is_short_only_at_the_end_of_the_file() {
    for_each_engine(2, 64, |bench| {
        let file = bench.file_of(&pattern(1, 1000));
        block_on(async {
            for (offset, len, expected) in
                [(0, 1000, 1000), (0, 2000, 1000), (990, 64, 10), (1000, 8, 0), (5000, 8, 0)]
            {
                let (read, _) = bench.ring.read_at(&file, offset, AlignedBuf::new(len), 0, len).await;
                assert_eq!(read.unwrap(), expected, "{len} bytes at {offset}");
            }
        });
    });
}

#[test]
fn direct_files_take_aligned_transfers_and_name_what_is_not() {
    for_each_engine(4, 4096, |bench| {
        let report = bench.ring.report();
        if !report.direct {
            return;
        }
        let unit = report.offset_align as usize;
        let len = 4096usize.next_multiple_of(unit) * 5;
        let file = bench.ring.create(&bench.path("d")).unwrap();
        let content = pattern(3, len);
        block_on(async {
            bench.ring.write_at(&file, 0, filled(&content), 0, len).await.0.unwrap();
            let (read, buf) = bench.ring.read_at(&file, 0, AlignedBuf::new(2 * len), 0, 2 * len).await;
            assert_eq!(read.unwrap(), len);
            assert!(buf.as_slice()[..len] == content);

            let (refused, buf) = bench.ring.read_at(&file, 1, buf, 0, unit).await;
            let text = refused.unwrap_err().to_string();
            assert_eq!(
                text,
                format!("file offset 1 and length {unit} must be multiples of {unit} for O_DIRECT")
            );
            let (refused, buf) = bench.ring.read_at(&file, 0, buf, 0, unit + 1).await;
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
            if report.memory_align > 1 {
                let (refused, _) = bench.ring.read_at(&file, 0, buf, 1, unit).await;
                assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
            }

            // A file whose length is no multiple ends inside a unit.
            std::fs::write(bench.path("odd"), &content[..len - 100]).unwrap();
            let odd = bench.ring.open_read(&bench.path("odd")).unwrap();
            assert!(odd.is_direct());
            let (read, buf) = bench.ring.read_at(&odd, 0, AlignedBuf::new(len), 0, len).await;
            assert_eq!(read.unwrap(), len - 100);
            assert!(buf.as_slice()[..len - 100] == content[..len - 100]);
        });
    });
}

#[test]
fn ranges_outside_buffer_or_file_offsets_are_refused() {
    for_each_engine(1, 4096, |bench| {
        let file = bench.file_of(b"0123456789");
        block_on(async {
            for (offset, buf_offset, len) in
                [(0, 5, 4), (0, usize::MAX, 2), (u64::MAX, 0, 8), (i64::MAX as u64, 0, 8)]
            {
                let (result, _) =
                    bench.ring.read_at(&file, offset, AlignedBuf::new(8), buf_offset, len).await;
                assert_eq!(result.unwrap_err().kind(), io::ErrorKind::InvalidInput);
            }
        });
        assert_eq!(bench.ring.in_flight(), 0);
    });
}

#[test]
fn a_system_error_keeps_its_number_and_the_buffer() {
    for_each_engine(1, 4096, |bench| {
        drop(bench.file_of(b"read only"));
        let file = bench.ring.open_read(&bench.path("content")).unwrap();
        let len = bench.ring.report().offset_align as usize;
        let (result, buf) = block_on(bench.ring.write_at(&file, 0, AlignedBuf::new(len), 0, len));
        assert_eq!(result.unwrap_err().raw_os_error(), Some(rustix::io::Errno::BADF.raw_os_error()));
        assert_eq!(buf.capacity(), len);
        assert_eq!(bench.ring.stats().errors.load(std::sync::atomic::Ordering::Relaxed), 1);
    });
}

#[test]
fn a_thousand_operations_share_a_depth_of_eight() {
    for_each_engine(8, LARGEST_STEP, |bench| {
        let content = pattern(5, 100_000);
        let file = bench.file_of(&content);
        let (ring, file, content) = (&bench.ring, &file, &content);
        let reads = (0..1000usize).map(|number| async move {
            let (read, buf) = ring.read_at(file, number as u64 * 99, AlignedBuf::new(700), 0, 700).await;
            assert_eq!(read.unwrap(), 700);
            assert!(buf.as_slice() == &content[number * 99..][..700], "read {number}");
        });
        block_on(futures_util::future::join_all(reads));
        assert_eq!(ring.in_flight(), 0);
        assert_eq!(ring.stats().reads.load(std::sync::atomic::Ordering::Relaxed), 1000);
    });
}

#[test]
fn new_files_are_private_and_links_are_not_followed() {
    use std::os::unix::fs::PermissionsExt;
    for_each_engine(1, 4096, |bench| {
        drop(bench.ring.create(&bench.path("new")).unwrap());
        let mode = std::fs::metadata(bench.path("new")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::os::unix::fs::symlink(bench.path("new"), bench.path("link")).unwrap();
        assert!(bench.ring.create(&bench.path("link")).is_err());
    });
}

#[test]
fn files_in_memory_are_buffered_and_the_report_says_so() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let ring = Ring::probe(dir.path(), EngineChoice::Threads, 2).unwrap();
    assert_eq!(
        ring.report().to_string(),
        "thread pool, buffered: chosen by io.engine; tmpfs has no O_DIRECT"
    );
    let file = ring.create(&dir.path().join("f")).unwrap();
    assert!(!file.is_direct());
    block_on(ring.write_at(&file, 3, filled(b"odd"), 0, 3)).0.unwrap();
    assert_eq!(std::fs::read(dir.path().join("f")).unwrap(), b"\0\0\0odd");
}

#[test]
fn an_idle_engine_uses_no_cpu() {
    for_each_engine(1, 4096, |bench| {
        let file = bench.file_of(b"x");
        let held = hold_engine(&bench.ring, &file);
        let path = format!("/proc/self/task/{}/schedstat", held.thread.as_raw_nonzero());
        drop(held);
        let used = || -> u64 {
            let text = std::fs::read_to_string(&path).unwrap();
            text.split(' ').next().unwrap().parse().unwrap()
        };
        // Time in which nothing happens has no event to wait for.
        let pause = || std::thread::sleep(Duration::from_millis(200));
        pause();
        let before = used();
        pause();
        let nanoseconds = used() - before;
        assert!(nanoseconds < 1_000_000, "{nanoseconds} ns of CPU in 200 ms");
    });
}
