//! The protobuf wire format: a sequence of numbered fields.

use crate::error::Problem;

/// The largest field number.
const FIELD_NUMBER_MAX: u64 = (1 << 29) - 1;

/// A field's value before its type is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Raw<'a> {
    /// Wire type 0: integers and booleans.
    Varint(u64),
    /// Wire types 1 and 5. No served Kubernetes type uses them.
    Fixed,
    /// Wire type 2: strings, bytes, messages, packed lists.
    Bytes(&'a [u8]),
}

impl<'a> Raw<'a> {
    pub(crate) fn bytes(self) -> Result<&'a [u8], Problem> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Varint(_) | Self::Fixed => Err(Problem::WireType),
        }
    }

    pub(crate) fn text(self) -> Result<&'a str, Problem> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Problem::Utf8)
    }

    /// A negative number fills all 64 bits in every field type.
    #[expect(clippy::cast_possible_wrap, reason = "the format's own way to write negative numbers")]
    pub(crate) fn int64(self) -> Result<i64, Problem> {
        match self {
            Self::Varint(bits) => Ok(bits as i64),
            Self::Bytes(_) | Self::Fixed => Err(Problem::WireType),
        }
    }

    pub(crate) fn int32(self) -> Result<i32, Problem> {
        i32::try_from(self.int64()?).map_err(|_| Problem::Int32)
    }
}

/// Iterates over the fields in `bytes` with their numbers, until the end or the first error.
pub(crate) struct Fields<'a> {
    all: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { all: bytes, rest: bytes }
    }

    /// Returns the offset of the next field.
    pub(crate) fn position(&self) -> usize {
        self.all.len() - self.rest.len()
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Raw<'a>), Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = read_field(&mut self.rest);
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

fn read_field<'a>(rest: &mut &'a [u8]) -> Result<(u32, Raw<'a>), Problem> {
    let key = read_varint(rest)?;
    let number = key >> 3;
    if number == 0 || FIELD_NUMBER_MAX < number {
        return Err(Problem::FieldNumber);
    }
    let raw = match key & 7 {
        0 => Raw::Varint(read_varint(rest)?),
        1 => take(rest, 8).map(|_| Raw::Fixed)?,
        2 => {
            let length = usize::try_from(read_varint(rest)?).map_err(|_| Problem::Truncated)?;
            Raw::Bytes(take(rest, length)?)
        }
        5 => take(rest, 4).map(|_| Raw::Fixed)?,
        _ => return Err(Problem::IllegalWireType),
    };
    Ok((u32::try_from(number).map_err(|_| Problem::FieldNumber)?, raw))
}

/// Reads seven bits per byte, the lowest bits first. The top bit means that more bytes follow.
pub(crate) fn read_varint(rest: &mut &[u8]) -> Result<u64, Problem> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = rest.split_first().ok_or(Problem::Truncated)?;
        *rest = tail;
        // The tenth byte has room for one bit.
        if shift == 63 && 1 < byte {
            return Err(Problem::Overflow);
        }
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(Problem::Overflow)
}

/// Appends a number as [`read_varint`] reads it.
fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while 0x7f < number {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Appends a field of wire type 0.
pub(crate) fn put_number(out: &mut Vec<u8>, field: u32, value: u64) {
    put_varint(out, u64::from(field) << 3);
    put_varint(out, value);
}

/// Appends a field of wire type 2.
pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    put_varint(out, u64::from(field) << 3 | 2);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Problem> {
    let (taken, tail) = rest.split_at_checked(length).ok_or(Problem::Truncated)?;
    *rest = tail;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: &[(u32, Raw<'_>)]) {
        let found: Vec<_> = Fields::new(bytes).collect::<Result<_, _>>().expect("well formed");
        assert_eq!(found, expected);
    }

    #[track_caller]
    fn check_fault(bytes: &[u8], expected: Problem) {
        assert_eq!(Fields::new(bytes).collect::<Result<Vec<_>, _>>(), Err(expected), "{bytes:?}");
    }

    #[test]
    fn fields_are_read_in_order() {
        check(b"", &[]);
        check(b"\x08\x96\x01\x12\x02ab", &[(1, Raw::Varint(150)), (2, Raw::Bytes(b"ab"))]);
        check(b"\x0d\0\0\0\0\x09\0\0\0\0\0\0\0\0", &[(1, Raw::Fixed), (1, Raw::Fixed)]);
        check(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", &[(1, Raw::Varint(u64::MAX))]);
    }

    #[test]
    fn faults_are_distinguished() {
        for cut in
            [&b"\x08"[..], b"\x08\x96", b"\x12\x02a", b"\x12", b"\x0d\0\0\0", b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x80"]
        {
            check_fault(cut, Problem::Truncated);
        }
        check_fault(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", Problem::Overflow);
        check_fault(b"\x00\x00", Problem::FieldNumber);
        check_fault(b"\xf8\xff\xff\xff\xff\x01\x00", Problem::FieldNumber);
        check_fault(b"\x0b\x0c", Problem::IllegalWireType);
        check_fault(b"\x0f", Problem::IllegalWireType);
    }

    #[test]
    fn what_is_put_is_read() {
        for value in [0, 1, 0x7f, 0x80, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, 15, value);
            put_bytes(&mut bytes, 16, b"ab");
            check(&bytes, &[(15, Raw::Varint(value)), (16, Raw::Bytes(b"ab"))]);
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert_eq!(Raw::Varint(u64::MAX).int32(), Ok(-1));
        assert_eq!(Raw::Varint(1 << 31).int32(), Err(Problem::Int32));
        assert_eq!(Raw::Bytes(b"").int32(), Err(Problem::WireType));
        assert_eq!(Raw::Varint(0).text(), Err(Problem::WireType));
        assert_eq!(Raw::Bytes(b"\xff").text(), Err(Problem::Utf8));
    }
}
