//! Damage to a server's folder: one flipped bit, one cut, one file less. A start on it has everything that was acknowledged, or is refused with a cause and
//! changes nothing.

use super::draw::Draw;
use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// All files below a folder, with their modes and what is in them.
pub(crate) type Tree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

pub(crate) fn read(folder: &Path) -> io::Result<Tree> {
    let mut tree = Tree::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(at)? {
            let (path, metadata) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
            if metadata.is_dir() {
                folders.push(path);
            } else {
                let content = (metadata.permissions().mode(), fs::read(&path)?);
                tree.insert(path.strip_prefix(folder).expect("it was found below it").to_owned(), content);
            }
        }
    }
    Ok(tree)
}

/// Makes a folder of these files, and nothing else.
pub(crate) fn write(folder: &Path, tree: &Tree) -> io::Result<()> {
    for (path, (mode, content)) in tree {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(&path, content)?;
        fs::set_permissions(path, fs::Permissions::from_mode(*mode))?;
    }
    Ok(())
}

/// One way to damage one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    file: PathBuf,
    harm: Harm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    Flip { byte: usize, bit: u8 },
    Cut { to: usize },
    Remove,
}

impl Damage {
    /// One to any of the files, wherever it hurts.
    pub(crate) fn draw(tree: &Tree, draw: &mut Draw) -> Self {
        let files: Vec<(&PathBuf, &[u8])> =
            tree.iter().map(|(path, (_, content))| (path, &**content)).filter(|file| !file.1.is_empty()).collect();
        let (file, content) = *draw.pick(&files);
        // Space that is taken ahead is zeros, which hold nothing: mostly they are left alone.
        let used = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let length = if 0 < used && !draw.one_in(8) { used } else { content.len() };
        let harm = match draw.below(3) {
            0 => Harm::Flip { byte: draw.index(length), bit: (draw.below(8)) as u8 },
            1 => Harm::Cut { to: draw.index(length) },
            _ => Harm::Remove,
        };
        Self { file: file.clone(), harm }
    }

    /// Does it.
    pub(crate) fn apply(&self, tree: &mut Tree) {
        let Some((_, content)) = tree.get_mut(&self.file) else { return };
        match self.harm {
            Harm::Flip { byte, bit } => content[byte] ^= 1 << bit,
            Harm::Cut { to } => content.truncate(to),
            Harm::Remove => drop(tree.remove(&self.file)),
        }
    }

    /// Which kind it is of, for the summary: numbers of files are left out.
    pub(crate) fn kind(&self) -> String {
        let file = self.file.to_string_lossy().replace(|c: char| c.is_ascii_digit(), "");
        let harm = match self.harm {
            Harm::Flip { .. } => "a flipped bit",
            Harm::Cut { .. } => "a cut",
            Harm::Remove => "removed",
        };
        format!("{}: {harm}", file.trim_end_matches('-'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let log = [&[7_u8; 100][..], &[0; 900]].concat();
        let files = [("store/log-00000001", log), ("pki/ca.pem", vec![1; 50]), ("lock", Vec::new())];
        files.into_iter().map(|(path, content)| (path.into(), (0o100_600, content))).collect()
    }

    #[test]
    fn each_damage_is_to_one_file_and_changes_it() {
        let mut kinds = BTreeMap::new();
        for part in 0..200 {
            let damage = Damage::draw(&tree(), &mut Draw::of(1, part));
            let mut damaged = tree();
            damage.apply(&mut damaged);
            let files: std::collections::BTreeSet<_> = tree().keys().chain(damaged.keys()).cloned().collect();
            let changed: Vec<_> = files.into_iter().filter(|file| tree().get(file) != damaged.get(file)).collect();
            assert!(changed.iter().eq([&damage.file]), "{damage:?} changed {changed:?}");
            *kinds.entry(damage.kind()).or_insert(0) += 1;
        }
        let kinds: Vec<_> = kinds.into_keys().collect();
        let expected = ["pki/ca.pem: a cut", "pki/ca.pem: a flipped bit", "pki/ca.pem: removed"].map(str::to_owned);
        assert_eq!((kinds.len(), &kinds[..3]), (6, &expected[..]));
        assert!(kinds.contains(&"store/log: removed".to_owned()), "{kinds:?}");
    }

    #[test]
    fn a_tree_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &tree()).unwrap();
        assert_eq!(read(folder.path()).unwrap(), tree());
    }
}
