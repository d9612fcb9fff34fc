//! Frames: what the files of a store consist of. Numbers are little-endian.
//!
//! | bytes | |
//! |---|---|
//! | 4 | [`MAGIC`] |
//! | 4 | length of the body |
//! | 8 | checksum of the frame before |
//! | 8 | checksum of this one: of the two fields before it, and of the body |
//! | … | the body |
//!
//! Each frame names the one before, so that none can be missing, duplicated, or from another file. After the last frame of a file there are at most
//! zeros, which are preallocated space, or one torn frame: a frame is written when the one before is durable. So unreadable bytes with a complete frame
//! after them are damage.

use crate::files::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Begins with a control character, which JSON never has: no value that users store can look like a frame.
const MAGIC: [u8; 4] = [0x1e, b'b', b'f', 0x03];
/// The number of bytes before a body.
pub(crate) const HEAD_BYTES: usize = 24;
/// No body is longer: more than what a batch takes. A damaged length cannot ask for more memory.
pub(crate) const BODY_BYTES_MAX: usize = 256 << 20;
/// How much is read at once.
const BUFFER_BYTES: usize = 256 << 10;
static ZEROS: [u8; BUFFER_BYTES] = [0; BUFFER_BYTES];

/// A buffer in which a frame is made: room for its head.
pub(crate) fn begin(bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.resize(HEAD_BYTES, 0);
}

/// Fills in the head of the frame whose body is in `bytes`. The frame before has the checksum `previous`. Returns the checksum of this one.
pub(crate) fn seal(bytes: &mut [u8], previous: u64) -> u64 {
    let (head, body) = bytes.split_at_mut(HEAD_BYTES);
    assert!(body.len() <= BODY_BYTES_MAX, "batches are bounded");
    let length = u32::try_from(body.len()).expect("bounded above");
    head[..4].copy_from_slice(&MAGIC);
    head[4..8].copy_from_slice(&length.to_le_bytes());
    head[8..16].copy_from_slice(&previous.to_le_bytes());
    let checksum = checksum(&head[4..16], body);
    head[16..].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

fn checksum(fields: &[u8], body: &[u8]) -> u64 {
    xxh3_64_with_seed(body, xxh3_64(fields))
}

/// The head of a complete frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    pub(crate) previous: u64,
    pub(crate) checksum: u64,
}

/// Reads frame after frame of a file.
pub(crate) struct Reader<'f> {
    file: &'f dyn File,
    bytes: BufReader<At<'f>>,
    /// Where the last frame that was read ends.
    end: u64,
    body: Vec<u8>,
}

/// A place in a file.
struct At<'f> {
    file: &'f dyn File,
    offset: u64,
}

impl Read for At<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read_at(bytes, self.offset)?;
        self.offset += length as u64;
        Ok(length)
    }
}

fn from(file: &dyn File, offset: u64) -> BufReader<At<'_>> {
    BufReader::with_capacity(BUFFER_BYTES, At { file, offset })
}

impl<'f> Reader<'f> {
    /// From `offset` on.
    pub(crate) fn new(file: &'f dyn File, offset: u64) -> Self {
        Self { file, bytes: from(file, offset), end: offset, body: Vec::new() }
    }

    /// Where the next frame begins.
    pub(crate) fn offset(&self) -> u64 {
        self.end
    }

    /// Reads the next frame; `None` if what comes is not a whole one. Then the place stays.
    pub(crate) fn next(&mut self) -> io::Result<Option<Seal>> {
        let read = self.read_frame()?;
        match read {
            Some(_) => self.end += (HEAD_BYTES + self.body.len()) as u64,
            None => self.bytes = from(self.file, self.end),
        }
        Ok(read)
    }

    fn read_frame(&mut self) -> io::Result<Option<Seal>> {
        let mut head = [0; HEAD_BYTES];
        match self.bytes.read_exact(&mut head) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let field = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        let length = u32::from_le_bytes(head[4..8].try_into().expect("four bytes")) as usize;
        if head[..4] != MAGIC || BODY_BYTES_MAX < length {
            return Ok(None);
        }
        // Grows with the available bytes, not with a damaged length.
        self.body.clear();
        let read = (&mut self.bytes).take(length as u64).read_to_end(&mut self.body)?;
        let seal = Seal { previous: field(8), checksum: field(16) };
        let is_whole = read == length && seal.checksum == checksum(&head[4..16], &self.body);
        Ok(is_whole.then_some(seal))
    }

    /// The body of the frame that was read last.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Goes to the next whole frame behind the place; false if there is none.
    pub(crate) fn skip(&mut self) -> io::Result<bool> {
        let found = find(self.file, self.end + 1)?;
        if let Some(offset) = found {
            (self.bytes, self.end) = (from(self.file, offset), offset);
        }
        Ok(found.is_some())
    }

    /// Whether only preallocated space follows.
    pub(crate) fn is_at_end(&self) -> io::Result<bool> {
        let mut bytes = from(self.file, self.end);
        loop {
            let chunk = bytes.fill_buf()?;
            let length = chunk.len();
            if length == 0 {
                return Ok(true);
            } else if chunk != &ZEROS[..length] {
                return Ok(false);
            }
            bytes.consume(length);
        }
    }
}

/// Where the first whole frame begins, at `offset` or later.
fn find(file: &dyn File, offset: u64) -> io::Result<Option<u64>> {
    let mut bytes = from(file, offset);
    let (mut at, mut matched) = (offset, 0);
    loop {
        let chunk = bytes.fill_buf()?;
        let length = chunk.len();
        if length == 0 {
            return Ok(None);
        }
        if matched != 0 || chunk != &ZEROS[..length] {
            for (index, byte) in chunk.iter().enumerate() {
                matched = if *byte == MAGIC[matched] { matched + 1 } else { usize::from(*byte == MAGIC[0]) };
                if matched == MAGIC.len() {
                    matched = 0;
                    let begin = at + index as u64 + 1 - MAGIC.len() as u64;
                    if Reader::new(file, begin).next()?.is_some() {
                        return Ok(Some(begin));
                    }
                }
            }
        }
        at += length as u64;
        bytes.consume(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Files, disk::Disk};

    /// A file with these bodies, each a frame, then `behind`.
    fn file(bodies: &[&str], behind: &[u8]) -> (Vec<u8>, Vec<usize>) {
        let (mut file, mut frame, mut previous, mut begins) = (Vec::new(), Vec::new(), 7, Vec::new());
        for body in bodies {
            begin(&mut frame);
            frame.extend_from_slice(body.as_bytes());
            previous = seal(&mut frame, previous);
            begins.push(file.len());
            file.extend_from_slice(&frame);
        }
        file.extend_from_slice(behind);
        (file, begins)
    }

    /// The bodies that are read, `!` for what is skipped, and `.` at a blank end.
    fn read(bytes: Vec<u8>) -> String {
        let disk = Disk::default();
        disk.damage("a", Some(bytes));
        let file = disk.open("a").expect("just made");
        let mut reader = Reader::new(&*file, 0);
        let mut seen = String::new();
        loop {
            match reader.next().expect("memory") {
                Some(_) => seen.push_str(&String::from_utf8_lossy(reader.body())),
                None if reader.is_at_end().expect("memory") => return seen + ".",
                None => {
                    seen.push('!');
                    if !reader.skip().expect("memory") {
                        return seen;
                    }
                }
            }
        }
    }

    #[test]
    fn frames_come_back_as_written() {
        assert_eq!(read(file(&["a", "", "bc"], &[]).0), "abc.");
        assert_eq!(read(file(&["a", "bc"], &[0; 3000]).0), "abc.");
        assert_eq!(read(file(&["a"], b"torn").0), "a!");
    }

    #[test]
    fn every_flipped_bit_is_seen_and_what_is_behind_is_found() {
        let (bytes, begins) = file(&["one", "two", "three"], &[0; 100]);
        for at in begins[1]..begins[2] {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert_eq!(read(damaged), "one!three.", "bit {bit} of byte {at}");
            }
        }
        for end in begins[2] + 1..bytes.len() - 100 {
            assert_eq!(read(bytes[..end].to_vec()), "onetwo!");
        }
    }

    /// A disk that does not answer.
    struct Ill;

    impl File for Ill {
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            Err(ErrorKind::TimedOut.into())
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
            Err(ErrorKind::TimedOut.into())
        }

        fn allocate(&self, _: u64) -> io::Result<()> {
            Err(ErrorKind::TimedOut.into())
        }

        fn sync(&self) -> io::Result<()> {
            Err(ErrorKind::TimedOut.into())
        }
    }

    /// Otherwise a store would take it for a torn end, and continue without what follows.
    #[test]
    fn what_cannot_be_read_is_no_end() {
        let told = Reader::new(&Ill, 0).next().map(|seal| seal.is_some());
        assert!(matches!(&told, Err(error) if error.kind() == ErrorKind::TimedOut), "{told:?}");
    }

    #[test]
    fn a_frame_is_of_its_place() {
        let mut frame = Vec::new();
        begin(&mut frame);
        let sums = [1, 2].map(|previous| seal(&mut frame.clone(), previous));
        assert_ne!(sums[0], sums[1]);
    }
}
