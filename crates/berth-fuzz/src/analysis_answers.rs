//! What providers of analyses answer, and the file that names them: a number or one of fourteen words is all that comes of an answer.

use berth_analysis::{ANSWER_BYTES_MAX, fuzzing};
use berth_workloads::analysis::{Answer, NoAnswer};
use futures_executor::block_on;
use serde_json::Value;
use std::{
    cmp::min,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, ReadBuf};

type Verdict = Result<Answer, NoAnswer>;

/// The longest text of an answer: a sign, seventeen digits, a point, an exponent.
const TEXT_CHARS_MAX: usize = 30;
/// The longest text of what is wrong with a file: twenty faults, each with its place and a path of the file's.
const FAULTS_CHARS_MAX: usize = 64 << 10;

/// Bytes that come so many at a time.
struct Pieces<'a> {
    bytes: &'a [u8],
    length: usize,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let length = min(self.length, min(buffer.remaining(), self.bytes.len()));
        let (piece, rest) = self.bytes.split_at(length);
        buffer.put_slice(piece);
        self.bytes = rest;
        Poll::Ready(Ok(()))
    }
}

fn brought(is_webhook: bool, bytes: &[u8], length: usize) -> Verdict {
    block_on(fuzzing::connection(is_webhook, Pieces { bytes, length }))
}

/// A finite number, or one of the words. Its text is a few letters, without control characters.
fn check(verdict: Verdict) {
    let told = match verdict {
        Ok(answer) => {
            let number = f64::from(answer);
            assert!(number.is_finite());
            assert_eq!(answer.passes(), number != 0.0);
            let told = answer.to_string();
            assert_eq!(told.parse(), Ok(number), "the number is the one that was answered");
            assert!(told.bytes().all(|letter| letter.is_ascii_digit() || b"+-.e".contains(&letter)), "{told:?}");
            told
        }
        Err(why) => {
            assert!(NoAnswer::ALL.contains(&why));
            why.to_string()
        }
    };
    assert!(told.len() <= TEXT_CHARS_MAX && told.chars().all(|letter| letter.is_ascii_graphic() || letter == ' '), "{told:?}");
}

/// The result of a body. It must be in the body.
fn of_body(is_webhook: bool, body: &[u8]) -> Verdict {
    let verdict = fuzzing::body(is_webhook, body);
    check(verdict);
    assert_eq!(verdict, fuzzing::body(is_webhook, body), "the same answer has the same verdict");
    if let Ok(answer) = verdict {
        assert!(contains(is_webhook, body, f64::from(answer)), "{answer} is not what {} says", String::from_utf8_lossy(body));
    }
    verdict
}

/// Whether a reader of any JSON finds this number, at its place.
fn contains(is_webhook: bool, body: &[u8], number: f64) -> bool {
    let Ok(document) = serde_json::from_slice::<Value>(body) else {
        // One who leaves out what it does not need reads what is nested too deeply, or not a number in Rust, for one who keeps it all.
        return serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok();
    };
    if is_webhook {
        return document["value"].as_f64() == Some(number);
    }
    let data = &document["data"];
    let result = if data["resultType"] == "scalar" { &data["result"] } else { &data["result"][0]["value"] };
    let is_one = data["resultType"] == "scalar" || data["result"].as_array().is_some_and(|samples| samples.len() == 1);
    document["status"] == "success" && is_one && result[1].as_str().and_then(|text| text.parse().ok()) == Some(number)
}

/// Bytes as they come from a connection.
fn of_connection(is_webhook: bool, bytes: &[u8]) {
    let verdict = brought(is_webhook, bytes, usize::MAX);
    check(verdict);
    assert_eq!(verdict, brought(is_webhook, bytes, 1), "however it comes");
}

/// A correct head with a body after it: the stated length counts.
fn of_answer(is_webhook: bool, body: &[u8]) {
    let answer = |length: usize| [format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").as_bytes(), body].concat();
    assert_eq!(brought(is_webhook, &answer(body.len()), usize::MAX), of_body(is_webhook, body));
    assert_eq!(brought(is_webhook, &answer(body.len() + 1), usize::MAX), Err(NoAnswer::Unreachable), "half an answer is none");
    let chunked = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", body.len());
    if !body.is_empty() {
        let whole = [chunked.as_bytes(), body, b"\r\n0\r\n\r\n"].concat();
        assert_eq!(brought(is_webhook, &whole, 7), of_body(is_webhook, body));
    }
    let long = [body, &vec![b' '; ANSWER_BYTES_MAX]].concat();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", long.len());
    let verdict = brought(is_webhook, &[head.as_bytes(), &long].concat(), usize::MAX);
    assert_eq!(verdict, if body.is_empty() { of_body(is_webhook, &long) } else { Err(NoAnswer::TooLong) });
}

/// The administrator's file, and the contents of the files that it names.
fn of_file(bytes: &[u8]) {
    let (text, named) = bytes.split_at(bytes.iter().rposition(|byte| *byte == 0).unwrap_or(bytes.len()));
    let Ok(text) = std::str::from_utf8(text) else { return };
    let read = || fuzzing::providers(text, named.get(1..).unwrap_or_default()).map_err(|error| error.to_string());
    let first = read();
    if let Err(error) = &first {
        assert!(error.len() <= FAULTS_CHARS_MAX && !error.chars().any(char::is_control), "{error:?}");
    }
    assert_eq!(first, read());
}

// The first byte chooses what the others are.

/// Runs the target with one input.
///
/// # Panics
/// Where a rule above is broken.
pub fn run(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let is_webhook = choice % 2 == 1;
    match choice {
        0..100 => of_answer(is_webhook, bytes),
        100..180 => of_connection(is_webhook, bytes),
        _ => of_file(bytes),
    }
}
