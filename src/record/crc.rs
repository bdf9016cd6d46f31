//! CRC-32C, plain and in TFRecord's masked form.

use crc_fast::{CrcAlgorithm, checksum};

/// CRC-32C (Castagnoli) of `bytes`, with the fastest instructions of this CPU.
pub fn crc32c(bytes: &[u8]) -> u32 {
    narrow(checksum(CrcAlgorithm::Crc32Iscsi, bytes))
}

/// TFRecord's mask over a CRC: rotated right by 15 bits plus a constant, so that a checksum of bytes which themselves
/// contain checksums stays strong.
pub fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// What TFRecord stores for `bytes`.
pub fn masked_crc32c(bytes: &[u8]) -> u32 {
    mask(crc32c(bytes))
}

/// The library gives every CRC as 64 bits.
pub(super) fn narrow(crc: u64) -> u32 {
    u32::try_from(crc).expect("a CRC-32 has 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // The check value of CRC-32C, and a header written by TensorFlow for a record of 2^63 bytes.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(masked_crc32c(&(1_u64 << 63).to_le_bytes()).to_le_bytes(), [0x95, 0x08, 0x67, 0xb6]);
    }
}
