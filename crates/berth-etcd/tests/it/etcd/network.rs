//! Networks within the machine, for users other than root: further machines, and cables to them that can be unplugged.
#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests run other programs, and show what they say")]

use berth_testing::{Tool, skip};
use std::{
    env,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

/// Set in a test that runs in its own namespaces.
const INSIDE: &str = "BERTH_TEST_INSIDE";

/// Shell commands for what a test needs.
pub(crate) const CABLE: &str = "ip link add near type veth peer name far";
pub(crate) const SWITCH: &str = "ip link add near type veth peer name far && ip link add switch type bridge";

/// Whether this process is root in its own namespaces. If not, it runs the test again in namespaces if the machine
/// supports `wants`, and this run has nothing to do.
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

/// Machines, each with a cable to each of some switches. The test's machine is connected to the switches too.
pub(crate) struct Network {
    machines: Vec<Machine>,
}

/// A network namespace, which exists as long as this process waits.
struct Machine(Child);

/// Whether a cable transmits.
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

    /// Returns the address of a machine at a switch.
    pub(crate) fn address(machine: usize, switch: usize) -> String {
        format!("10.253.{switch}.{}", 10 + machine)
    }

    /// Returns a command that runs on a machine.
    pub(crate) fn command(&self, machine: usize) -> Command {
        self.machines[machine].command()
    }

    /// Sets the cable from a machine to a switch.
    pub(crate) fn set(machine: usize, switch: usize, cable: Cable) {
        let state = if cable == Cable::In { "up" } else { "down" };
        ip(&["link", "set", &port(machine, switch), state]);
    }
}

/// Returns the switch's end of a cable.
fn port(machine: usize, switch: usize) -> String {
    format!("port{switch}-{machine}")
}

impl Machine {
    fn start() -> Self {
        // Reports its start, and runs until its input is closed.
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
