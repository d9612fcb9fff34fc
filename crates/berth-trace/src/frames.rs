//! Lines in frames. Each frame stands by itself: a file that breaks off is whole up to its last frame.

use std::io::{self, Write};

/// A frame is closed when it holds so many bytes, if not before.
const FRAME_BYTES: usize = 1 << 20;
/// zstd's own default.
const LEVEL: i32 = 3;
/// What the last frame, which says how it ended, may take.
const LAST_BYTES: u64 = 1024;

/// Writes lines into frames.
pub struct Frames<W> {
    out: W,
    open: Vec<u8>,
    written: u64,
    most: u64,
    is_full: bool,
}

impl<W: Write> Frames<W> {
    /// A file that will have at most so many bytes; 0: as many as there are.
    pub fn new(out: W, most: u64) -> Self {
        Self { out, open: Vec::new(), written: 0, most, is_full: false }
    }

    /// Whether nothing more fits. What was written last, and did not fit, is not in the file.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// How many bytes the file has.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// What it writes into.
    #[must_use]
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    /// Adds a line.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn line(&mut self, line: &str) -> io::Result<()> {
        self.open.extend_from_slice(line.as_bytes());
        self.open.push(b'\n');
        if self.open.len() < FRAME_BYTES { Ok(()) } else { self.flush() }
    }

    /// Closes the frame: all lines before are in the file then.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.close(LAST_BYTES)
    }

    /// The last line; gives what it was written into.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self, last: &str) -> io::Result<W> {
        self.flush()?;
        self.line(last)?;
        self.is_full = false;
        self.close(0)?;
        Ok(self.out)
    }

    fn close(&mut self, left: u64) -> io::Result<()> {
        let lines = std::mem::take(&mut self.open);
        if lines.is_empty() || self.is_full {
            return Ok(());
        }
        let frame = zstd::bulk::compress(&lines, LEVEL)?;
        let length = u64::try_from(frame.len()).unwrap_or(u64::MAX);
        if self.most > 0 && self.most < self.written + length + left {
            self.is_full = true;
            return Ok(());
        }
        self.out.write_all(&frame)?;
        self.out.flush()?;
        self.written += length;
        Ok(())
    }
}
