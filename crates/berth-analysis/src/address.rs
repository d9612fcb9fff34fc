//! The addresses that a provider may have.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses of the machine itself, or close to it, that requests reach only if the administrator allows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// This machine.
    pub(crate) loopback: bool,
    /// Addresses on the same link, for example the metadata services of clouds, which serve keys.
    pub(crate) link_local: bool,
}

impl Allowed {
    /// Whether a connection to this address may be opened.
    pub(crate) fn allows(self, ip: IpAddr) -> bool {
        match (ip, embedded(ip)) {
            (_, Some(inner)) => self.allows_v4(inner),
            (IpAddr::V4(ip), None) => self.allows_v4(ip),
            (IpAddr::V6(ip), None) if ip.is_loopback() => self.loopback,
            (IpAddr::V6(ip), None) if ip.is_unicast_link_local() => self.link_local,
            (IpAddr::V6(ip), None) => !ip.is_unspecified() && !ip.is_multicast(),
        }
    }

    fn allows_v4(self, ip: Ipv4Addr) -> bool {
        if ip.is_loopback() {
            self.loopback
        } else if ip.is_link_local() {
            self.link_local
        } else {
            // 0.0.0.0/8 is also this machine.
            ip.octets()[0] != 0 && !ip.is_multicast() && !ip.is_broadcast()
        }
    }
}

/// Whether requests to this address stay on this machine. Requests to an address that a network translates into a loopback address do not.
pub(crate) fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// The IPv4 address that this address is translated to.
fn embedded(ip: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(ip) = ip else { return None };
    let bytes = ip.octets();
    let at = |from: usize| Ipv4Addr::new(bytes[from], bytes[from + 1], bytes[from + 2], bytes[from + 3]);
    let translated = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0).octets();
    match bytes {
        _ if ip.is_loopback() || ip.is_unspecified() => None,
        // ::ffff:a.b.c.d, and the obsolete form ::a.b.c.d.
        _ if bytes[..10] == [0; 10] && (bytes[10..12] == [0xff, 0xff] || bytes[10..12] == [0, 0]) => Some(at(12)),
        _ if bytes[..12] == translated[..12] => Some(at(12)),
        // Addresses that a private network translates (RFC 8215), in the usual format, and ::ffff:0:a.b.c.d of stateless translators.
        _ if bytes[..6] == [0, 0x64, 0xff, 0x9b, 0, 1] || bytes[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0] => Some(at(12)),
        [0x20, 0x02, ..] => Some(at(2)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_must_be_allowed_however_it_is_written() {
        let none = Allowed::default();
        let (loopback, link_local) = (Allowed { loopback: true, ..none }, Allowed { link_local: true, ..none });
        let ip = |text: &str| text.parse::<IpAddr>().expect(text);
        for near in [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::7f00:1",
            "::ffff:0:7f00:1",
            "2002:7f00:1::",
        ] {
            assert_eq!([none, loopback, link_local].map(|allowed| allowed.allows(ip(near))), [false, true, false], "{near}");
        }
        for near in ["169.254.169.254", "fe80::1", "febf::1", "::ffff:169.254.0.1", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"] {
            assert_eq!([none, loopback, link_local].map(|allowed| allowed.allows(ip(near))), [false, false, true], "{near}");
        }
        let all = Allowed { loopback: true, link_local: true };
        for address in ["0.0.0.0", "0.1.2.3", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "::ffff:0.0.0.0"] {
            assert!(!all.allows(ip(address)), "{address}");
        }
        for usual in ["10.0.0.1", "192.168.1.1", "8.8.8.8", "fd00::1", "2001:db8::1", "::ffff:10.0.0.1"] {
            assert!(none.allows(ip(usual)), "{usual}");
        }
    }
}
