//! Shared-memory blocks: where every byte of a batch lies, and the DRAM tier of the cache.
//!
//! **What.** One sealed memfd, cut into slots of `pool.block_bytes`. A slot is *free*, or being *filled* by exactly one
//! [`SlotMut`], or *published*: it then holds the block of a shard under its [`BlockKey`], is never written again, and
//! can be shared by any number of [`BlockRef`]s. Clients map the whole memfd read-only.
//!
//! **Why two types.** Exclusive and shared access are different types, so the promise "bytes behind a live lease never
//! change" is kept by the compiler: only a `SlotMut` can be written, publishing consumes it, and a slot comes back
//! into the hands of a new `SlotMut` only when no `BlockRef` is left.
//!
//! **DRAM tier.** A published block that nobody holds stays where it is, and a later reader finds it ([`Pool::get`]).
//! When a slot is needed and none is free, the block that has been unused longest gives way (LRU over blocks that
//! nobody holds).
//!
//! **Room.** The slots are divided beforehand so that waiting for one always ends: a part for the blocks that streams
//! hold or assemble ([`Leases`]), the rest for blocks on their way in or to disk (the in-flight budget of
//! [`crate::budget`]). Each holder reserves its share before it asks for a slot, so at most as many slots are pinned as
//! exist, and whatever is not pinned can be evicted.
//!
//! **Limits.** One segment, on whatever NUMA node first touches it; slots of one size, so a small shard takes a whole
//! slot of address space (but only as many pages as it has). All clients see all blocks.

mod block;
mod leases;
mod segment;
mod table;

pub use block::{BlockRef, DiskSource, Pool, PoolUsage, SlotMut};
pub use leases::{Lease, Leases};
pub use table::BlockKey;
