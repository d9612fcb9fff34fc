//! How long an object stays after somebody asked for its deletion.

/// How the end of an object stands after a request to delete it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grace {
    /// Objects of its kind go at once.
    None,
    /// Its time is over, or it never had any: the last that is seen of it says so.
    Over,
    /// Its time begins now, in seconds.
    Start(i64),
    /// Its time goes on as it is.
    Running,
    /// Its time becomes shorter.
    Shorten {
        /// What it is now, in seconds from its begin.
        seconds: i64,
        /// What it was.
        back_by: i64,
    },
}
