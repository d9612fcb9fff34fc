//! Networks within the machine, for who is not its root: other machines, and cables to them that can be out.
#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests run other programs, and show what they say")]

use berth_testing::{Tool, skip};
use std::{
    env,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

/// Set in a test that runs in namespaces of its own.
const INSIDE: &str = "BERTH_TEST_INSIDE";

/// What a test wants to make there, as commands of a shell.
pub(crate) const CABLE: &str = "ip link add near type veth peer name far";
pub(crate) const SWITCH: &str = "ip link add near type veth peer name far && ip link add switch type bridge";

/// Whether this runs as root of namespaces of its own. If not, the test is run once more so, where what it wants can be had, and has nothing to do here.
pub(crate) fn is_inside(test: &str, wants: &str) -> bool {
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    let inside = |command: &[&str]| Command::new("unshare").arg("-Urn").args(command).env(INSIDE, "1").output();
    let wants = format!("{wants} && command -v nsenter");
    match inside(&["sh", "-c", &wants]) {
        Ok(tried) if tried.status.success() => (),
        Ok(tried) => {
            skip(Tool::Namespaces, &format!("unshare, ip, nsenter: {}", String::from_utf8_lossy(&tried.stderr).trim()));
            return false;
        }
        Err(error) => {
            skip(Tool::Namespaces, &format!("unshare: {error}"));
            return false;
        }
    }
    let own = env::current_exe().expect("it runs");
    let ended = inside(&[own.to_str().expect("a path of text"), "--exact", test, "--nocapture"]).expect("it ran a moment ago");
    print!("{}", String::from_utf8_lossy(&ended.stdout));
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    false
}

pub(crate) fn ip(arguments: &[&str]) {
    assert!(Command::new("ip").args(arguments).status().expect("it is here").success(), "{arguments:?}");
}

/// Machines, each with a cable to each of some switches, at which this one is too.
pub(crate) struct Network {
    machines: Vec<Machine>,
}

/// A network of its own, which is there as long as this waits.
struct Machine(Child);

/// Whether anything passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cable {
    In,
    /// Packets are lost without an error.
    Out,
}

impl Network {
    pub(crate) fn new(machines: usize, switches: usize) -> Self {
        ip(&["link", "set", "lo", "up"]);
        let network = Self { machines: (0..machines).map(|_| Machine::start()).collect() };
        for switch in 0..switches {
            let name = format!("switch{switch}");
            ip(&["link", "add", &name, "type", "bridge"]);
            ip(&["addr", "add", &format!("10.253.{switch}.1/24"), "dev", &name]);
            ip(&["link", "set", &name, "up"]);
            for (index, machine) in network.machines.iter().enumerate() {
                let (near, far) = (port(index, switch), format!("far{switch}"));
                ip(&["link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &machine.0.id().to_string()]);
                ip(&["link", "set", &near, "master", &name, "up"]);
                machine.ip(&["addr", "add", &format!("{}/24", Self::address(index, switch)), "dev", &far]);
                machine.ip(&["link", "set", &far, "up"]);
            }
        }
        network
    }

    /// Where a machine is, by a switch.
    pub(crate) fn address(machine: usize, switch: usize) -> String {
        format!("10.253.{switch}.{}", 10 + machine)
    }

    /// A program there.
    pub(crate) fn command(&self, machine: usize) -> Command {
        self.machines[machine].command()
    }

    /// Of a machine, to a switch.
    pub(crate) fn set(machine: usize, switch: usize, cable: Cable) {
        let state = if cable == Cable::In { "up" } else { "down" };
        ip(&["link", "set", &port(machine, switch), state]);
    }
}

/// The switch's end of a cable.
fn port(machine: usize, switch: usize) -> String {
    format!("port{switch}-{machine}")
}

impl Machine {
    fn start() -> Self {
        // Reports that it runs, and stays until its input is closed.
        let mut command = Command::new("unshare");
        command.args(["-n", "sh", "-c", "ip link set lo up; echo; read end"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it ran a moment ago");
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut String::new()).expect("it is there");
        Self(child)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.0.id()));
        command
    }

    fn ip(&self, arguments: &[&str]) {
        assert!(self.command().arg("ip").args(arguments).status().expect("it is here").success(), "{arguments:?}");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}
