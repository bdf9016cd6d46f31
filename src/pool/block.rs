//! The pool and the two kinds of access to a slot.

use super::segment::Segment;
use super::table::{BlockKey, Table};
use crate::ring::IoBuf;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The pool. Clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    segment: Segment,
    table: Mutex<Table>,
    slots: u32,
    block_bytes: u32,
}

impl Inner {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Slots by what they hold, and what the DRAM tier has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUsage {
    /// Slots in all.
    pub slots: u64,
    /// Slots that hold nothing.
    pub free: u64,
    /// Published blocks that nobody holds.
    pub cached: u64,
    /// Slots being filled.
    pub filling: u64,
    /// Published blocks behind batches, or on their way to disk.
    pub held: u64,
    /// Lookups that found their block.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Blocks that gave way to others.
    pub evictions: u64,
}

impl Pool {
    /// Makes a pool of `bytes`, rounded down to whole blocks of `block_bytes`.
    ///
    /// # Errors
    /// If the system refuses the memory, or `bytes` holds no block at all (`InvalidInput`).
    pub fn create(bytes: u64, block_bytes: u32) -> io::Result<Self> {
        let slots = u32::try_from(bytes / u64::from(block_bytes)).unwrap_or(u32::MAX);
        if slots == 0 {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let segment = Segment::create(slots, block_bytes)?;
        let table = Mutex::new(Table::new(slots));
        Ok(Self { inner: Arc::new(Inner { segment, table, slots, block_bytes }) })
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u32 {
        self.inner.block_bytes
    }

    /// Number of slots.
    pub fn slots(&self) -> u32 {
        self.inner.slots
    }

    /// Size of the segment in bytes.
    pub fn bytes(&self) -> u64 {
        self.inner.segment.bytes()
    }

    /// The segment's descriptor, to be passed to clients: no writable mapping can be made from it.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.inner.segment.fd()
    }

    /// The block, if it is in the pool.
    pub fn get(&self, key: BlockKey) -> Option<BlockRef> {
        let (slot, length) = self.inner.table().get(&key)?;
        Some(BlockRef { pool: self.clone(), slot, length })
    }

    /// Whether the block is in the pool; does not count as a use.
    pub fn contains(&self, key: &BlockKey) -> bool {
        self.inner.table().contains(key)
    }

    /// A slot to fill; waits until one comes free. The caller has reserved its share beforehand (see the module page).
    pub async fn slot(&self) -> SlotMut {
        let taken = self.inner.table().take();
        match taken {
            Ok(slot) => SlotMut::new(self.clone(), slot),
            Err(receiver) => {
                let mut waiting = Waiting { pool: self, receiver };
                let slot = (&mut waiting.receiver).await.expect("the table outlives its waiters");
                SlotMut::new(self.clone(), slot)
            }
        }
    }

    /// Drops the block from the pool: nobody finds it any more, and those who hold it keep it.
    pub fn forget(&self, key: &BlockKey) {
        self.inner.table().forget(key);
    }

    /// Slots by use, and counters.
    pub fn usage(&self) -> PoolUsage {
        let table = self.inner.table();
        let census = table.census();
        PoolUsage {
            slots: u64::from(self.inner.slots),
            free: census.free,
            cached: census.cached,
            filling: census.filling,
            held: census.held,
            hits: table.hits,
            misses: table.misses,
            evictions: table.evictions,
        }
    }
}

/// Gives back a slot that was handed over in the very moment its waiter was dropped.
struct Waiting<'a> {
    pool: &'a Pool,
    receiver: tokio::sync::oneshot::Receiver<u32>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.receiver.close();
        if let Ok(slot) = self.receiver.try_recv() {
            self.pool.inner.table().abandon(slot);
        }
    }
}

/// A slot being filled: the only access to its bytes, by anyone.
#[derive(Debug)]
pub struct SlotMut {
    pool: Pool,
    slot: u32,
    published: bool,
}

impl SlotMut {
    fn new(pool: Pool, slot: u32) -> Self {
        Self { pool, slot, published: false }
    }

    /// All bytes of the slot. They are what an earlier block left there.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: a SlotMut is the only holder of its slot, and it is borrowed exclusively.
        unsafe { self.pool.inner.segment.slice_mut(self.slot) }
    }

    /// The first `length` bytes.
    pub fn bytes(&self, length: usize) -> &[u8] {
        // SAFETY: a SlotMut is the only holder of its slot; writes need it exclusively borrowed.
        unsafe { self.pool.inner.segment.slice(self.slot, length) }
    }

    /// Makes the slot's first `length` bytes the block `key`, never to change again. A copy of the block that was there
    /// before is found no more.
    pub fn publish(mut self, key: BlockKey, length: u32) -> BlockRef {
        assert!(length <= self.pool.block_bytes());
        self.published = true;
        self.pool.inner.table().publish(self.slot, key, length);
        BlockRef { pool: self.pool.clone(), slot: self.slot, length }
    }
}

impl SlotMut {
    /// Makes the slot's first `length` bytes what they are for good, under no name: only holders find them, and behind the
    /// last one the slot is free.
    pub fn freeze(mut self, length: u32) -> BlockRef {
        assert!(length <= self.pool.block_bytes());
        self.published = true;
        self.pool.inner.table().freeze(self.slot, length);
        BlockRef { pool: self.pool.clone(), slot: self.slot, length }
    }
}

impl Drop for SlotMut {
    fn drop(&mut self) {
        if !self.published {
            self.pool.inner.table().abandon(self.slot);
        }
    }
}

// SAFETY: the slot's memory belongs to the mapping, which lives as long as the pool handle inside, never moves, and is
// touched by nobody else while this value lives.
unsafe impl IoBuf for SlotMut {
    fn ptr(&self) -> *mut u8 {
        self.pool.inner.segment.pointer(self.slot)
    }

    fn capacity(&self) -> usize {
        self.pool.block_bytes() as usize
    }
}

/// A published block, held: its bytes neither change nor go away.
#[derive(Debug)]
pub struct BlockRef {
    pool: Pool,
    slot: u32,
    length: u32,
}

impl BlockRef {
    /// Number of the slot in its segment.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// The block's bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: a published slot is written by nobody, and stays published while this holder lives.
        unsafe { self.pool.inner.segment.slice(self.slot, self.length as usize) }
    }

    /// The block as the source of a disk write.
    pub fn to_disk_source(&self) -> DiskSource {
        DiskSource(self.clone())
    }
}

impl Clone for BlockRef {
    fn clone(&self) -> Self {
        self.pool.inner.table().retain(self.slot);
        Self { pool: self.pool.clone(), slot: self.slot, length: self.length }
    }
}

impl Drop for BlockRef {
    fn drop(&mut self) {
        self.pool.inner.table().release(self.slot);
    }
}

/// A published block on its way to disk. Only good for writing to a file: its bytes are shared and must not change.
#[derive(Debug)]
pub struct DiskSource(BlockRef);

// SAFETY: the memory is valid and unmoved while the holder inside lives. It is passed to writes only, which read it.
unsafe impl IoBuf for DiskSource {
    fn ptr(&self) -> *mut u8 {
        self.0.pool.inner.segment.pointer(self.0.slot)
    }

    fn capacity(&self) -> usize {
        self.0.pool.block_bytes() as usize
    }
}
