//! Runs each target on its seeds, and on inputs made from them that are the same in each run.
//!
//! Nothing here learns which inputs reach new code. `cargo xtask fuzz` does, and the inputs that it finds worth keeping become seeds.

#![expect(clippy::disallowed_methods, reason = "reads seeds")]

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use std::{fs, panic, path::Path};

/// As libFuzzer is limited.
const INPUT_BYTES_MAX: usize = 4096;
/// Inputs that are made for each target.
const MADE: usize = 2_000;

/// The seeds of a target, in the order of their names.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = files.map(|file| file.expect("readable").path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).expect("readable")).collect()
}

/// Words that readers treat specially, one a line of `fuzz/words.dict`.
fn words() -> Vec<&'static [u8]> {
    include_str!("../../../../fuzz/words.dict")
        .lines()
        .filter_map(|line| line.strip_prefix('"')?.strip_suffix('"'))
        .map(str::as_bytes)
        .collect()
}

/// Makes inputs from seeds.
struct Maker {
    random: ChaCha8Rng,
    seeds: Vec<Vec<u8>>,
    words: Vec<&'static [u8]>,
}

impl Maker {
    fn new(seeds: Vec<Vec<u8>>) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(1), seeds, words: words() }
    }

    /// A number below `end`, or 0.
    fn below(&mut self, end: usize) -> usize {
        self.random.next_u32() as usize % end.max(1)
    }

    fn seed(&mut self) -> Vec<u8> {
        let chosen = self.below(self.seeds.len());
        self.seeds[chosen].clone()
    }

    fn input(&mut self) -> Vec<u8> {
        let mut input = self.seed();
        for _ in 0..=self.below(4) {
            self.change(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    /// Changes one part of an input.
    fn change(&mut self, input: &mut Vec<u8>) {
        let from = self.below(input.len() + 1);
        let to = (from + self.below(16)).min(input.len());
        match self.below(6) {
            0 => drop(input.drain(from..to)),
            1 => input[from..to].iter_mut().for_each(|byte| *byte ^= 1 << (self.random.next_u32() % 8)),
            2 => input[from..to].iter_mut().for_each(|byte| *byte = self.random.next_u32() as u8),
            3 => input.splice(from..from, input[from..to].to_vec()).for_each(drop),
            4 => {
                let chosen = self.below(self.words.len());
                input.splice(from..to, self.words[chosen].iter().copied()).for_each(drop);
            }
            _ => {
                let other = self.seed();
                let other_from = self.below(other.len() + 1);
                input.truncate(from);
                input.extend_from_slice(&other[other_from..]);
            }
        }
    }
}

/// Runs the target. On a panic, prints the input.
fn run(target: &str) {
    let (_, run) = berth_fuzz::TARGETS.iter().find(|(name, _)| *name == target).expect("a target of this name");
    let seeds = seeds(target);
    assert!(!seeds.is_empty(), "{target} has no seeds");
    let mut maker = Maker::new(seeds.clone());
    let made = (0..MADE).map(|_| maker.input());
    for input in seeds.into_iter().chain(made) {
        if panic::catch_unwind(|| run(&input)).is_err() {
            panic!("{target} found a fault with this input: {}", input.escape_ascii());
        }
    }
}

macro_rules! targets {
    ($($target:ident)*) => {
        $(
            #[test]
            fn $target() {
                run(stringify!($target));
            }
        )*

        #[test]
        fn every_target_has_a_test_and_a_program_of_libfuzzer() {
            let names: Vec<&str> = berth_fuzz::TARGETS.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, [$(stringify!($target)),*]);
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
            let mut programs: Vec<_> = fs::read_dir(folder).expect("a folder").map(|file| file.expect("readable").path()).collect();
            programs.sort();
            assert_eq!(programs.iter().map(|path| path.file_stem().expect("a file").to_string_lossy()).collect::<Vec<_>>(), names);
        }
    };
}

targets! {
    analysis_answers apply archive definitions expressions field_sets json_body patches protobuf_body requests roles scalars selectors stored_records structural trace validation webhook_answers yaml_body
}
