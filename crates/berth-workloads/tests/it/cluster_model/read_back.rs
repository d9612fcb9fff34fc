//! Plans are data: tests go on with what is read back of them.

use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// The value after it was written as JSON and read again, which must be the same.
pub(crate) fn read_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T) -> T {
    let text = serde_json::to_string(&value).expect("it has string keys only");
    let read: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(read, value, "{text}");
    read
}
