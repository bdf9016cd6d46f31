//! TFRecord framing and CRC-32C.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}
pub(crate) fn append_record(out: &mut Vec<u8>, payload: &[u8]) {
    let masked = |b: &[u8]| crc32c(b).rotate_right(15).wrapping_add(0xa282_ead8);
    let len = (payload.len() as u64).to_le_bytes();
    out.extend_from_slice(&len);
    out.extend_from_slice(&masked(&len).to_le_bytes());
    out.extend_from_slice(payload);
    out.extend_from_slice(&masked(payload).to_le_bytes());
}
