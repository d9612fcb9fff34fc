//! Options of `berth up` for Services, and the address at which other machines reach the API server.

use berth_api::ip::{Cidr, check_endpoint_ip};
use berth_registry::allocation::ServiceRanges;
use clap::Args;
use std::{
    net::{IpAddr, Ipv4Addr, UdpSocket},
    ops::RangeInclusive,
};

/// The minimum number of addresses in a usable range.
const CLUSTER_IPS_MIN: u64 = 6;

/// The options of `berth up` for Services.
#[derive(Args, Debug)]
pub(crate) struct ServiceOptions {
    /// The address on which others reach the API server: the endpoint of the Service kubernetes [default: --bind-address, or this machine's
    /// first address that is not loopback].
    #[arg(long, value_name = "IP", value_parser = advertised)]
    pub(crate) advertise_address: Option<IpAddr>,

    /// The range of Services' cluster addresses, IPv4. berth uses it when it creates the ServiceCIDR kubernetes. To get more addresses, add
    /// ServiceCIDRs.
    #[arg(long, value_name = "CIDR", default_value = "10.96.0.0/16", value_parser = cluster_ips)]
    pub(crate) service_cluster_ip_range: Cidr,

    /// The range of Services' node ports.
    #[arg(long, value_name = "FIRST-LAST", default_value = "30000-32767", value_parser = node_ports)]
    pub(crate) service_node_port_range: RangeInclusive<u16>,
}

impl ServiceOptions {
    /// The ranges from which the registry allocates.
    pub(crate) fn ranges(&self) -> ServiceRanges {
        ServiceRanges { cluster_ips: self.service_cluster_ip_range, node_ports: self.service_node_port_range.clone() }
    }

    /// The endpoint address of the Service `kubernetes`, if there is one.
    pub(crate) fn advertised(&self, bind: IpAddr) -> Option<IpAddr> {
        let bound = (!bind.is_unspecified() && !bind.is_loopback()).then_some(bind);
        self.advertise_address.or(bound).or_else(own_address)
    }
}

/// This machine's address for connections to other machines. Sends nothing: the system only chooses a route.
fn own_address() -> Option<IpAddr> {
    /// An address reserved for documentation, which no machine has.
    const ELSEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(ELSEWHERE).ok()?;
    let address = socket.local_addr().ok()?.ip();
    check_endpoint_ip(&address.to_string()).is_empty().then_some(address)
}

fn advertised(text: &str) -> Result<IpAddr, String> {
    match check_endpoint_ip(text).first() {
        Some(fault) => Err(fault.clone()),
        None => text.parse().map_err(|_| "not an IP address".to_owned()),
    }
}

pub(crate) fn cluster_ips(text: &str) -> Result<Cidr, String> {
    let range: Cidr = text.parse().map_err(|_| format!("{text:?} is not an address range, such as 10.96.0.0/16"))?;
    if range.family() != "IPv4" {
        return Err("Services require an IPv4 range".to_owned());
    }
    if range.host_count() < CLUSTER_IPS_MIN {
        return Err(format!("{text} has only {} addresses; berth requires at least {CLUSTER_IPS_MIN}", range.host_count()));
    }
    Ok(range.network())
}

fn node_ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let parse = |port: &str| port.parse().ok().filter(|port| *port > 0);
    let range = text.split_once('-').and_then(|(first, last)| Some(parse(first)?..=parse(last)?));
    range
        .filter(|range: &RangeInclusive<u16>| !range.is_empty())
        .ok_or_else(|| format!("{text:?} is not a port range, such as 30000-32767"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_people_write_them() {
        assert_eq!(cluster_ips("10.0.7.9/24").map(|range| range.to_string()), Ok("10.0.7.0/24".to_owned()));
        for (text, fault) in
            [("10.0.0.0", "is not an address range"), ("10.0.0.0/30", "has only 2 addresses"), ("fd00::/112", "require an IPv4 range")]
        {
            assert!(cluster_ips(text).expect_err(text).contains(fault), "{text}");
        }
        assert_eq!(node_ports("30000-30009"), Ok(30_000..=30_009));
        for text in ["30000", "2-1", "0-5", "1-70000", "a-b"] {
            assert!(node_ports(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_others_cannot_reach_is_not_advertised() {
        let options = |advertise_address| ServiceOptions {
            advertise_address,
            service_cluster_ip_range: "10.96.0.0/16".parse().expect("a range"),
            service_node_port_range: 30_000..=32_767,
        };
        let [bound, said] = ["192.0.2.5", "192.0.2.6"].map(|address| address.parse::<IpAddr>().expect("an address"));
        assert_eq!(options(None).advertised(bound), Some(bound));
        assert_eq!(options(Some(said)).advertised(bound), Some(said));
        assert!(options(None).advertised(Ipv4Addr::LOCALHOST.into()).is_none_or(|address| !address.is_loopback()));
        assert_eq!(advertised("127.0.0.1"), Err("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()));
    }
}
