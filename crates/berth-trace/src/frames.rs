//! Writes lines in frames. Each frame is independent, so an interrupted file is readable up to its last complete frame.

use std::io::{self, Write};

/// The size at which a frame is closed, in bytes.
const FRAME_BYTES: usize = 1 << 20;
/// The default of zstd.
const LEVEL: i32 = 3;
/// The space reserved for the last frame, which contains the end of the recording.
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
    /// Creates a writer for a file of at most this many bytes. 0 means no limit.
    pub fn new(out: W, most: u64) -> Self {
        Self { out, open: Vec::new(), written: 0, most, is_full: false }
    }

    /// Whether the file is full. The last line did not fit and is not in the file.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns the size of the file in bytes.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the underlying writer.
    #[must_use]
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    /// Adds a line.
    ///
    /// # Errors
    /// The write fails.
    pub fn line(&mut self, line: &str) -> io::Result<()> {
        self.open.extend_from_slice(line.as_bytes());
        self.open.push(b'\n');
        if self.open.len() < FRAME_BYTES { Ok(()) } else { self.flush() }
    }

    /// Closes the frame, so that the file contains all lines so far.
    ///
    /// # Errors
    /// The write fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.close(LAST_BYTES)
    }

    /// Writes the last line and returns the underlying writer.
    ///
    /// # Errors
    /// The write fails.
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
