//! `berth version`, `completion`, `man`, and the variables of options: what users expect of any command.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../../build/stamp.rs"]
mod stamp;

use berth_testing::{Tool, skip};
use serde_json::Value;
use std::{
    path::Path,
    process::{Command, Output},
    time::{Duration, UNIX_EPOCH},
};
use tempfile::TempDir;

fn berth(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_berth")).args(arguments).envs(variables.iter().copied()).output().unwrap()
}

fn stdout(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_version_is_printed_for_people_and_programs() {
    let text = stdout(berth(&["version"], &[]));
    let rows: Vec<(&str, &str)> = text.lines().map(|line| line.split_once(':').unwrap()).collect();
    assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), ["berth", "commit", "built", "Kubernetes", "platform"]);
    let json: Value = serde_json::from_str(&stdout(berth(&["version", "-o", "json"], &[]))).unwrap();
    assert_eq!((&json["version"], &json["kubernetesVersion"]), (&env!("CARGO_PKG_VERSION").into(), &"1.36".into()));
    assert_eq!((rows[0].1.trim(), rows[3].1.trim()), (env!("CARGO_PKG_VERSION"), "1.36"));
    assert!(json.as_object().unwrap().contains_key("commit") && json.as_object().unwrap().contains_key("buildDate"), "{json}");
}

#[test]
fn a_build_can_be_the_same_every_time() {
    let now = UNIX_EPOCH + Duration::from_secs(5);
    assert_eq!(stamp::built_at(None, now), Ok(5));
    assert_eq!(stamp::built_at(Some(""), now), Ok(5));
    assert_eq!(stamp::built_at(Some("1700000000"), now), Ok(1_700_000_000));
    assert_eq!(stamp::built_at(Some("today"), now), Err("SOURCE_DATE_EPOCH is \"today\", no number of seconds".to_owned()));
}

fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
    let output = Command::new("git").arg("-C").arg(folder).args(identity).args(arguments).output().ok()?;
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

#[test]
fn the_commit_is_that_of_the_sources_own_repository() {
    let folder = TempDir::new().unwrap();
    assert_eq!(stamp::commit(folder.path()), None, "no repository");
    if git(folder.path(), &["init", "--quiet"]).is_none() {
        return skip(Tool::Git, "it is not on this machine");
    }
    assert_eq!(stamp::commit(folder.path()), None, "no commit yet");
    git(folder.path(), &["commit", "--quiet", "--allow-empty", "--message", "First"]);
    let head = git(folder.path(), &["rev-parse", "HEAD"]);
    assert!(head.as_ref().is_some_and(|head| head.len() == 40), "{head:?}");
    assert_eq!(stamp::commit(folder.path()), head);
    assert_eq!(stamp::changing_files(folder.path()).len(), 2);
    let unpacked = folder.path().join("unpacked");
    std::fs::create_dir(&unpacked).unwrap();
    assert_eq!(stamp::commit(&unpacked), None, "another repository");
}

#[test]
fn shells_complete_commands_and_man_has_a_page_of_each() {
    for (shell, says) in [("bash", "berth__subcmd__rollout"), ("zsh", "#compdef berth"), ("fish", "complete -c berth")] {
        let script = stdout(berth(&["completion", shell], &[]));
        assert!(script.contains(says) && script.contains("secure-port"), "{shell}: {script}");
    }
    let folder = TempDir::new().unwrap();
    let pages = folder.path().join("share/man1");
    assert_eq!(stdout(berth(&["man", pages.to_str().unwrap()], &[])), "");
    for (page, says) in [("berth.1", "berth\\-rollout"), ("berth-up.1", "BERTH_SECURE_PORT"), ("berth-rollout-undo.1", "to\\-revision")] {
        let text = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.contains(says), "{page}: {text}");
    }
}

#[test]
fn options_are_read_from_the_environment_unless_they_are_given() {
    let refused = |arguments: &[&str], variables: &[(&str, &str)]| {
        let output = berth(arguments, variables);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let text = refused(&["up"], &[("BERTH_SECURE_PORT", "many")]);
    assert!(text.contains("invalid value 'many' for '--secure-port <PORT>'"), "{text}");
    assert!(text.ends_with("The environment variable BERTH_SECURE_PORT is set.\n"), "{text}");
    let text = refused(&["up", "--secure-port", "few"], &[("BERTH_SECURE_PORT", "1")]);
    assert!(text.contains("invalid value 'few'"), "{text}");
    let text = refused(&["rollout", "status", "deploy/web"], &[("BERTH_ROLLOUT_TIMEOUT", "soon")]);
    assert!(text.contains("\"soon\" is not a duration"), "{text}");
    let help = stdout(berth(&["up", "--help"], &[("BERTH_CONTROLLERS", "secret")]));
    assert!(help.contains("[env: BERTH_SECURE_PORT]") && !help.contains("secret"), "{help}");
}
