//! Protobuf varints, and a bounded reader over received bytes.
use crate::error::{Error, Result};

/// Longest encoding of a 64-bit varint, bytes.
pub const MAX_LEN: usize = 10;

/// Appends `value` to `out` at `at`; returns the position behind it, or `None` if it has no room.
#[must_use]
pub fn put(out: &mut [u8], mut at: usize, mut value: u64) -> Option<usize> {
    loop {
        let slot = out.get_mut(at)?;
        at += 1;
        if value < 0x80 {
            *slot = value as u8;
            return Some(at);
        }
        *slot = (value as u8) | 0x80;
        value >>= 7;
    }
}

/// Length of the encoding of `value`, bytes.
#[must_use]
pub fn len(value: u64) -> usize {
    // ceil(bits / 7), with one byte for zero.
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Outcome of reading a varint from bytes that may not all be there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Get {
    /// The value, and how many bytes it took.
    Value(u64, usize),
    /// More bytes are needed.
    Short,
    /// Longer than ten bytes: not a varint.
    Bad,
}

/// Reads a varint from the start of `bytes`.
#[must_use]
pub fn get(bytes: &[u8]) -> Get {
    let mut value = 0_u64;
    for (i, &byte) in bytes.iter().enumerate() {
        if i == MAX_LEN {
            return Get::Bad;
        }
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Get::Value(value, i + 1);
        }
    }
    if bytes.len() >= MAX_LEN { Get::Bad } else { Get::Short }
}

/// Zigzag decoding of sint64.
#[must_use]
pub fn unzigzag(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

/// A cursor over the fields of one protobuf message.
pub struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// One field: its number and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 1.
    Fixed64(u64),
    /// Wire type 2.
    Bytes(&'a [u8]),
    /// Wire type 5.
    Fixed32(u32),
}

impl<'a> Fields<'a> {
    /// Reads the fields of `bytes`, a whole message.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { bytes, at: 0 }
    }

    /// Whether all bytes were read.
    #[must_use]
    pub fn at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// Reads one varint at the cursor.
    ///
    /// # Errors
    /// `Protocol` when the bytes end inside it.
    pub fn varint(&mut self) -> Result<u64> {
        match get(self.bytes.get(self.at..).unwrap_or_default()) {
            Get::Value(value, n) => {
                self.at += n;
                Ok(value)
            }
            _ => Err(Error::protocol(format!("a varint at byte {} is cut off", self.at))),
        }
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(n);
        let Some(slice) = end.and_then(|end| self.bytes.get(self.at..end)) else {
            return Err(Error::protocol(format!(
                "a field of {n} bytes at byte {} exceeds the message of {} bytes",
                self.at,
                self.bytes.len()
            )));
        };
        self.at += n;
        Ok(slice)
    }

    /// The next field, or `None` at the end of the message.
    ///
    /// # Errors
    /// `Protocol` when the bytes are not a protobuf message.
    pub fn next_field(&mut self) -> Result<Option<(u64, Value<'a>)>> {
        if self.at >= self.bytes.len() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => {
                let mut raw = [0; 8];
                raw.copy_from_slice(self.take(8)?);
                Value::Fixed64(u64::from_le_bytes(raw))
            }
            2 => {
                let n = self.varint()?;
                let n = usize::try_from(n).unwrap_or(usize::MAX);
                Value::Bytes(self.take(n)?)
            }
            5 => {
                let mut raw = [0; 4];
                raw.copy_from_slice(self.take(4)?);
                Value::Fixed32(u32::from_le_bytes(raw))
            }
            other => {
                return Err(Error::protocol(format!("wire type {other} at byte {}", self.at)));
            }
        };
        Ok(Some((tag >> 3, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_knows_its_length() {
        for value in [0, 1, 127, 128, 300, 16383, 16384, u64::from(u32::MAX), u64::MAX] {
            let mut out = [0; 12];
            let n = put(&mut out, 1, value).unwrap();
            assert_eq!(n - 1, len(value), "{value}");
            assert_eq!(get(&out[1..]), Get::Value(value, n - 1));
            for cut in 1..n {
                assert_eq!(get(&out[1..cut]), Get::Short);
            }
        }
        assert_eq!(get(&[0xff; 11]), Get::Bad);
        assert_eq!(put(&mut [0; 1], 0, 300), None);
        assert_eq!(unzigzag(3), -2);
        assert_eq!(unzigzag(4), 2);
    }

    #[test]
    fn a_field_beyond_the_end_is_an_error() {
        assert!(Fields::new(&[0x0a, 5, 1]).next_field().is_err());
        assert!(Fields::new(&[0x0b]).next_field().is_err());
        assert!(
            Fields::new(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1])
                .next_field()
                .is_err()
        );
    }
}
