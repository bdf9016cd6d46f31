//! The payload of a batch entry: header, runs, lengths. Pure encoding, no memory of others is touched.

use super::layout::{BATCH_HEADER, RUN_BYTES, RUN_CONTINUES};

/// What is said about a batch as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchHeader {
    /// Number of the batch in its stream, from 0; also what the client gives back.
    pub id: u64,
    /// Epoch, from 0.
    pub epoch: u64,
    /// Number of the global batch in its epoch, from 0; the same on every rank.
    pub global_batch: u64,
    /// Position in the epoch's sequence of the first record that is not a pad.
    pub position: u64,
    /// Records in the batch, pads included.
    pub records: u32,
    /// How many of them, at the end, are pads: records repeated so that all ranks have equally many.
    pub pads: u32,
    /// Where the job is once all ranks have taken this batch.
    pub next: Mark,
}

/// A place in the sequence of all epochs, between two global batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// Epoch, from 0.
    pub epoch: u64,
    /// Position in the epoch of the next record.
    pub position: u64,
    /// Global batches of the epoch before it.
    pub batch: u64,
    /// A slot (a shard's place in the epoch) at or before the position.
    pub slot: u64,
    /// Position of that slot's first record.
    pub slot_position: u64,
}

/// Records that lie one behind another in one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Pool segment.
    pub segment: u16,
    /// [`RUN_CONTINUES`] or 0.
    pub flags: u16,
    /// Slot within the segment.
    pub slot: u32,
    /// Offset of the first payload byte within the slot.
    pub offset: u32,
    /// Entries of the length list that belong to this run.
    pub count: u32,
}

impl Run {
    /// Whether the last record of this run goes on in the next run.
    pub fn continues(&self) -> bool {
        self.flags & RUN_CONTINUES != 0
    }
}

/// A batch entry that is not what the layout says. Only a fault of the daemon can cause it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("batch descriptor is malformed: {0}")]
pub struct MalformedBatch(pub &'static str);

/// Collects runs and lengths and encodes them.
#[derive(Debug, Default)]
pub struct BatchWriter {
    runs: Vec<Run>,
    lengths: Vec<u32>,
}

impl BatchWriter {
    /// Starts over, keeping the memory.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.lengths.clear();
    }

    /// Opens a run; the lengths pushed next belong to it.
    pub fn open_run(&mut self, segment: u16, slot: u32, offset: u32) {
        self.runs.push(Run { segment, flags: 0, slot, offset, count: 0 });
    }

    /// Adds a record, or a part of one, to the open run.
    ///
    /// # Panics
    /// If no run is open.
    pub fn push_length(&mut self, length: u32) {
        self.runs.last_mut().expect("a run is open").count += 1;
        self.lengths.push(length);
    }

    /// Marks the open run: its last record goes on in the next run.
    ///
    /// # Panics
    /// If no run is open.
    pub fn mark_continues(&mut self) {
        self.runs.last_mut().expect("a run is open").flags |= RUN_CONTINUES;
    }

    /// Encodes the batch into `out`, which is cleared first.
    pub fn encode(&self, header: &BatchHeader, out: &mut Vec<u8>) {
        out.clear();
        out.reserve(BATCH_HEADER + self.runs.len() * RUN_BYTES + self.lengths.len() * 4);
        for word in [header.id, header.epoch, header.global_batch, header.position] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        let runs = u32::try_from(self.runs.len()).expect("a batch has at most u32::MAX runs");
        let lengths = u32::try_from(self.lengths.len()).expect("a batch has at most u32::MAX records");
        for word in [header.records, header.pads, runs, lengths] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        let next = &header.next;
        for word in [next.epoch, next.position, next.batch, next.slot, next.slot_position] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for run in &self.runs {
            out.extend_from_slice(&run.segment.to_le_bytes());
            out.extend_from_slice(&run.flags.to_le_bytes());
            for word in [run.slot, run.offset, run.count] {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
        for length in &self.lengths {
            out.extend_from_slice(&length.to_le_bytes());
        }
    }
}

/// A decoded batch entry, borrowing its bytes.
#[derive(Debug, Clone, Copy)]
pub struct BatchReader<'a> {
    /// The header.
    pub header: BatchHeader,
    runs: &'a [u8],
    lengths: &'a [u8],
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"))
}

impl<'a> BatchReader<'a> {
    /// Checks and splits the bytes of an entry.
    ///
    /// # Errors
    /// [`MalformedBatch`] if the parts do not add up.
    pub fn new(bytes: &'a [u8]) -> Result<Self, MalformedBatch> {
        if bytes.len() < BATCH_HEADER {
            return Err(MalformedBatch("shorter than its header"));
        }
        let header = BatchHeader {
            id: u64_at(bytes, 0),
            epoch: u64_at(bytes, 8),
            global_batch: u64_at(bytes, 16),
            position: u64_at(bytes, 24),
            records: u32_at(bytes, 32),
            pads: u32_at(bytes, 36),
            next: Mark {
                epoch: u64_at(bytes, 48),
                position: u64_at(bytes, 56),
                batch: u64_at(bytes, 64),
                slot: u64_at(bytes, 72),
                slot_position: u64_at(bytes, 80),
            },
        };
        let (runs, lengths) = (u32_at(bytes, 40) as usize, u32_at(bytes, 44) as usize);
        let body = &bytes[BATCH_HEADER..];
        if body.len() as u64 != runs as u64 * RUN_BYTES as u64 + lengths as u64 * 4 {
            return Err(MalformedBatch("length does not fit its counts"));
        }
        if header.pads > header.records {
            return Err(MalformedBatch("more pads than records"));
        }
        let (runs, lengths) = body.split_at(runs * RUN_BYTES);
        Ok(Self { header, runs, lengths })
    }

    /// The runs with their lengths.
    pub fn runs(&self) -> impl Iterator<Item = Run> + 'a {
        self.runs.chunks_exact(RUN_BYTES).map(|run| Run {
            segment: u16::from_le_bytes([run[0], run[1]]),
            flags: u16::from_le_bytes([run[2], run[3]]),
            slot: u32_at(run, 4),
            offset: u32_at(run, 8),
            count: u32_at(run, 12),
        })
    }

    /// All lengths, in the order of the runs.
    pub fn lengths(&self) -> impl ExactSizeIterator<Item = u32> + 'a {
        self.lengths.chunks_exact(4).map(|length| u32_at(length, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_bytes() {
        let mut writer = BatchWriter::default();
        writer.open_run(1, 2, 3);
        writer.push_length(4);
        writer.mark_continues();
        let next = Mark { epoch: 5, position: 6, batch: 7, slot: 8, slot_position: 9 };
        let header = BatchHeader { id: 1, epoch: 2, global_batch: 3, position: 4, records: 1, pads: 0, next };
        let mut out = Vec::new();
        writer.encode(&header, &mut out);
        let mut expected = Vec::new();
        for word in [1_u64, 2, 3, 4] {
            expected.extend(word.to_le_bytes());
        }
        for word in [1_u32, 0, 1, 1] {
            expected.extend(word.to_le_bytes());
        }
        for word in [5_u64, 6, 7, 8, 9] {
            expected.extend(word.to_le_bytes());
        }
        expected.extend([1, 0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0]);
        assert_eq!(out, expected, "a change here needs a new PROTOCOL_VERSION");
    }

    proptest! {
        #[test]
        fn decoding_gives_back_what_was_encoded(
            runs in prop::collection::vec((any::<u16>(), any::<u32>(), any::<u32>(), prop::collection::vec(any::<u32>(), 1..5), any::<bool>()), 0..20),
            (words, next) in any::<([u64; 4], [u64; 5])>(),
        ) {
            let mut writer = BatchWriter::default();
            for (segment, slot, offset, lengths, continues) in &runs {
                writer.open_run(*segment, *slot, *offset);
                lengths.iter().for_each(|&length| writer.push_length(length));
                if *continues { writer.mark_continues(); }
            }
            let [epoch, position, batch, slot, slot_position] = next;
            let next = Mark { epoch, position, batch, slot, slot_position };
            let [id, epoch, global_batch, position] = words;
            let header = BatchHeader { id, epoch, global_batch, position, records: 9, pads: 2, next };
            let mut out = Vec::new();
            writer.encode(&header, &mut out);
            let reader = BatchReader::new(&out).unwrap();
            prop_assert_eq!(reader.header, header);
            prop_assert_eq!(reader.runs().collect::<Vec<_>>(), writer.runs);
            prop_assert_eq!(reader.lengths().collect::<Vec<_>>(), writer.lengths);
        }

        #[test]
        fn any_bytes_are_refused_or_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(reader) = BatchReader::new(&bytes) {
                let _ = reader.runs().count() + reader.lengths().count();
            }
        }
    }
}
