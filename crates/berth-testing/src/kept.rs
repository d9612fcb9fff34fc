//! Reviewed pictures and screens, kept in files.

/// Where this variable is `write`, what is drawn is kept instead of compared; `cargo xtask pictures` does so.
const VARIABLE: &str = "BERTH_PICTURES";

/// Compares what is drawn with the file `name` in `folder`.
///
/// # Panics
/// The drawing differs from the reviewed one.
#[track_caller]
pub fn kept(folder: &str, name: &str, drawn: &str) {
    let path = format!("{folder}/{name}");
    if std::env::var_os(VARIABLE).is_some_and(|wanted| wanted == "write") {
        std::fs::write(&path, drawn).expect("a folder that is tracked");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let difference = kept.lines().zip(drawn.lines()).find(|(kept, drawn)| kept != drawn);
    assert!(kept == drawn, "{name} is drawn otherwise: look at it, then `cargo xtask pictures`. The first difference: {difference:?}");
}
