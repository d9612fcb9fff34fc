//! Images that cannot be pulled.

use super::view::{ContainerView, KubeletPod};
use berth_api::simulation::Failure;

/// The images that no registry has, by patterns: `*` matches any text including slashes, `?` matches any one character, and all others
/// match themselves. An image is compared as the pod names it.
#[derive(Clone, Debug, Default)]
pub struct MissingImages(Vec<String>);

impl MissingImages {
    /// The images that match one of `patterns`.
    #[must_use]
    pub fn matching(patterns: Vec<String>) -> Self {
        Self(patterns)
    }

    /// Whether the pull of the container's image fails, because of its image, or because the pod specifies it.
    pub(super) fn fails(&self, pod: &KubeletPod, container: &ContainerView) -> bool {
        let has_failed_before =
            pod.fails() == Some(Failure::ImagePullBackOff) && pod.containers.iter().any(|own| own.name == container.name);
        has_failed_before || self.0.iter().any(|pattern| matches(pattern, &container.image))
    }

    /// Whether the pull of any image of the pod fails.
    pub(super) fn fail_some(&self, pod: &KubeletPod) -> bool {
        pod.init_containers.iter().chain(pod.containers.iter()).any(|container| self.fails(pod, container))
    }
}

/// Whether the whole text matches. The cost is at most the product of the two lengths.
fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    // Whether the text read so far matches the first `n` characters of the pattern.
    let mut reached = vec![false; pattern.len() + 1];
    reached[0] = true;
    let pass_stars = |reached: &mut [bool]| {
        for (n, _) in pattern.iter().enumerate().filter(|(_, character)| **character == '*') {
            reached[n + 1] |= reached[n];
        }
    };
    pass_stars(&mut reached);
    for read in text.chars() {
        let mut next = vec![false; reached.len()];
        for (n, character) in pattern.iter().enumerate() {
            match character {
                '*' => next[n + 1] = reached[n + 1],
                '?' => next[n + 1] = reached[n],
                own => next[n + 1] = reached[n] && *own == read,
            }
        }
        pass_stars(&mut next);
        reached = next;
    }
    reached[pattern.len()]
}

/// The message of a container runtime about an image that its registry does not have.
pub(super) fn pull_error(image: &str) -> String {
    let full = full_reference(image);
    format!(
        "rpc error: code = NotFound desc = failed to pull and unpack image \"{full}\": failed to resolve reference \"{full}\": {full}: not found"
    )
}

/// The image with registry, repository and tag, as runtimes expand it.
fn full_reference(image: &str) -> String {
    let named = match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => image.to_owned(),
        Some(_) => format!("docker.io/{image}"),
        None => format!("docker.io/library/{image}"),
    };
    let is_tagged = named.contains('@') || named.rsplit('/').next().is_some_and(|last| last.contains(':'));
    if is_tagged { named } else { format!("{named}:latest") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_images() {
        for (pattern, image, wanted) in [
            ("*:404", "registry.example/shop/web:404", true),
            ("*:404", "web:4040", false),
            ("web", "web:1", false),
            ("web*", "web:1", true),
            ("*/shop/*", "r/shop/web", true),
            ("*/shop/*", "r/shop", false),
            ("web:?", "web:1", true),
            ("web:?", "web:", false),
            ("web:?", "web:12", false),
            ("*", "", true),
            ("", "", true),
            ("", "web", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("**", "web", true),
        ] {
            assert_eq!(matches(pattern, image), wanted, "{pattern} on {image}");
        }
        let slow = "*a".repeat(200);
        assert!(!matches(&slow, &"a".repeat(199)), "no pattern takes exponential time");
    }

    #[test]
    fn a_missing_image_is_named_in_full() {
        for (image, wanted) in [
            ("web", "docker.io/library/web:latest"),
            ("shop/web:1", "docker.io/shop/web:1"),
            ("localhost/web", "localhost/web:latest"),
            ("r.example:5000/web", "r.example:5000/web:latest"),
            ("r.example/web@sha256:00", "r.example/web@sha256:00"),
        ] {
            assert_eq!(full_reference(image), wanted);
        }
    }
}
