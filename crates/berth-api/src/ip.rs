//! IP addresses as the API writes them, and ranges of them.

use crate::Path;
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

const ADDRESS_FORM: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const INTERFACE_FORM: &str = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
const CIDR_FORM: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Messages on an IP address, version 4 or 6, in any way of writing it that others read as the same address.
///
/// Source: kubernetes `IsValidIPForLegacyField`, strict.
#[must_use]
pub fn check_ip(text: &str) -> Vec<String> {
    match parsed::<IpAddr>(text) {
        Err(message) => vec![message.to_owned()],
        Ok(_) if is_mapped(text) => vec!["must not be an IPv4-mapped IPv6 address".to_owned()],
        Ok(_) => Vec::new(),
    }
}

/// Messages on an IP address in the one way of writing it that is canonical.
#[must_use]
pub fn check_canonical_ip(text: &str) -> Vec<String> {
    canonical::<IpAddr>(text)
}

/// The address that is written, maybe with zeros in front of its numbers.
fn written(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| without_leading_zeros(text)?.parse().ok())
}

/// Messages on an address that leads nowhere, or that each machine has for itself.
///
/// Source: kubernetes `ValidateNonSpecialIP`.
#[must_use]
pub fn check_ordinary_ip(text: &str) -> Vec<String> {
    let Some(address) = written(text) else { return vec!["must be a valid IP address".to_owned()] };
    special(address, text)
}

/// Messages on an IP address of an endpoint: neither one that leads nowhere nor one that each machine has for itself.
///
/// Source: kubernetes `ValidateEndpointIP`.
#[must_use]
pub fn check_endpoint_ip(text: &str) -> Vec<String> {
    match (check_ip(text), text.parse()) {
        (faults, Ok(address)) if faults.is_empty() => special(address, text),
        (faults, _) => faults,
    }
}

/// `text`: how the address is written, which one message shows.
fn special(address: IpAddr, text: &str) -> Vec<String> {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let is_link_local_multicast = match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    };
    let faults = [
        (address.is_unspecified(), format!("may not be unspecified ({text})")),
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()),
        (is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()),
        (is_link_local_multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned()),
    ];
    faults.into_iter().filter(|(is_fault, _)| *is_fault).map(|(_, message)| message).collect()
}

/// Messages on a range of addresses of which no bit is set beyond its prefix, and which is no IPv4 range in the form of IPv6.
#[must_use]
pub fn check_network(text: &str) -> Vec<String> {
    match parsed::<Cidr>(text) {
        Err(message) => vec![message.to_owned()],
        Ok(_) if is_mapped(text.split('/').next().unwrap_or_default()) => vec!["must not have an IPv4-mapped IPv6 address".to_owned()],
        Ok(cidr) if cidr.network() != cidr => vec!["must not have bits set beyond the prefix length".to_owned()],
        Ok(_) => Vec::new(),
    }
}

/// The warning about an IPv6 address that is written in another form than the canonical one.
///
/// Source: kubernetes `GetWarningsForIP`.
#[must_use]
pub fn ip_warning(path: &Path, text: &str) -> Option<String> {
    let canonical = text.parse::<Ipv6Addr>().ok().filter(|address| address.to_ipv4_mapped().is_none())?.to_string();
    (canonical != text).then(|| format!("{path}: IPv6 address \"{text}\" should be in RFC 5952 canonical format (\"{canonical}\")"))
}

/// The warning about a range of IPv6 addresses that is written in another form than the canonical one.
///
/// Source: kubernetes `GetWarningsForCIDR`.
#[must_use]
pub fn network_warning(path: &Path, text: &str) -> Option<String> {
    let canonical = text.parse::<Cidr>().ok().filter(|cidr| cidr.family() == "IPv6")?.to_string();
    let is_odd = canonical != text && !is_mapped(text.split('/').next().unwrap_or_default());
    is_odd.then(|| format!("{path}: IPv6 CIDR value \"{text}\" should be in RFC 5952 canonical format (\"{canonical}\")"))
}

/// Whether it is an IPv4 address in the form of IPv6.
fn is_mapped(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok_and(|address| address.to_ipv4_mapped().is_some())
}

/// Messages on a range of addresses in the one way of writing it that is canonical.
#[must_use]
pub fn check_canonical_cidr(text: &str) -> Vec<String> {
    match parsed::<Cidr>(text) {
        Ok(cidr) if cidr.network() != cidr => vec!["must not have bits set beyond the prefix length".to_owned()],
        _ => canonical::<Cidr>(text),
    }
}

/// Messages on an address of a network interface with the length of its network's prefix, in the one way of writing it that is canonical.
///
/// Source: kubernetes `IsValidInterfaceAddress`.
#[must_use]
pub fn check_interface_cidr(text: &str) -> Vec<String> {
    match text.parse::<Cidr>() {
        Err(NoCidr) => vec![INTERFACE_FORM.to_owned()],
        Ok(_) => canonical::<Cidr>(text),
    }
}

/// What is written in this form.
trait Form: FromStr + fmt::Display {
    const MESSAGE: &'static str;
    const LEADING_ZEROS: &'static str;
}

impl Form for IpAddr {
    const MESSAGE: &'static str = ADDRESS_FORM;
    const LEADING_ZEROS: &'static str = "must not have leading 0s";
}

impl Form for Cidr {
    const MESSAGE: &'static str = CIDR_FORM;
    const LEADING_ZEROS: &'static str = "must not have leading 0s in IP or prefix length";
}

/// Parses the text, or returns the error message.
fn parsed<T: Form>(text: &str) -> Result<T, &'static str> {
    match text.parse() {
        Ok(value) => Ok(value),
        // The standard library takes no leading zeros; without them the text is good or something else is wrong too.
        Err(_) if without_leading_zeros(text).is_some_and(|text| text.parse::<T>().is_ok()) => Err(T::LEADING_ZEROS),
        Err(_) => Err(T::MESSAGE),
    }
}

fn canonical<T: Form>(text: &str) -> Vec<String> {
    match parsed::<T>(text) {
        Err(message) => vec![message.to_owned()],
        Ok(value) if value.to_string() != text => vec![format!("must be in canonical form (\"{value}\")")],
        Ok(_) => Vec::new(),
    }
}

/// An IPv4 address or range without zeros in front of its numbers.
fn without_leading_zeros(text: &str) -> Option<String> {
    let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
    let shorten = |number: &str| match number.trim_start_matches('0') {
        "" if !number.is_empty() => "0".to_owned(),
        short => short.to_owned(),
    };
    let numbers: Vec<String> = address.split('.').map(shorten).collect();
    let address = (numbers.len() == 4).then(|| numbers.join("."))?;
    Some(prefix.map_or(address.clone(), |prefix| format!("{address}/{}", shorten(prefix))))
}

/// `IPv4` or `IPv6`: what the API calls the family of an address.
#[must_use]
pub fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// A range of addresses of one family: `10.96.0.0/16`. May have bits set beyond its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cidr {
    address: IpAddr,
    prefix: u32,
}

/// A text that is no [`Cidr`].
#[derive(Debug, PartialEq, Eq)]
pub struct NoCidr;

impl FromStr for Cidr {
    type Err = NoCidr;

    fn from_str(text: &str) -> Result<Self, NoCidr> {
        let (address, prefix) = text.split_once('/').ok_or(NoCidr)?;
        let address: IpAddr = address.parse().map_err(|_| NoCidr)?;
        let is_number = prefix.bytes().all(|byte| byte.is_ascii_digit()) && (prefix == "0" || !prefix.starts_with('0'));
        let prefix = prefix.parse().ok().filter(|prefix| is_number && *prefix <= width(address)).ok_or(NoCidr)?;
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Cidr {
    /// `IPv4` or `IPv6`.
    #[must_use]
    pub fn family(&self) -> &'static str {
        family(self.address)
    }

    /// The same range without bits beyond its prefix.
    #[must_use]
    pub fn network(&self) -> Self {
        Self { address: address_of(self.first(), self.address), prefix: self.prefix }
    }

    /// Whether the address is one of the range.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && (self.first()..=self.last()).contains(&bits(address))
    }

    /// Whether every address of `part` is one of this range, and not all of this range are of `part`.
    #[must_use]
    pub fn strictly_holds(&self, part: &Self) -> bool {
        part.prefix > self.prefix && self.contains(part.address)
    }

    /// How many addresses can be given out: neither the one that names the network nor an IPv4 network's broadcast address.
    #[must_use]
    pub fn host_count(&self) -> u64 {
        let not_hosts = if self.address.is_ipv4() { 2 } else { 1 };
        u64::try_from((self.last() - self.first()).saturating_add(1).saturating_sub(not_hosts)).unwrap_or(u64::MAX)
    }

    /// The address of this number, from 0 to below [`Cidr::host_count`].
    #[must_use]
    pub fn host(&self, number: u64) -> IpAddr {
        address_of(self.first() + 1 + u128::from(number), self.address)
    }

    /// Whether the address is one that can be given out.
    #[must_use]
    pub fn is_host(&self, address: IpAddr) -> bool {
        let last = self.last() - u128::from(self.address.is_ipv4());
        self.contains(address) && (self.first() + 1..=last).contains(&bits(address))
    }

    fn first(&self) -> u128 {
        bits(self.address) & !self.mask()
    }

    fn last(&self) -> u128 {
        bits(self.address) | self.mask()
    }

    /// The bits that differ within the range.
    fn mask(&self) -> u128 {
        u128::MAX.checked_shr(u128::BITS - (width(self.address) - self.prefix)).unwrap_or(0)
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { u32::BITS } else { u128::BITS }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The address with these bits, of the family of `like`.
fn address_of(bits: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::from_bits(u32::try_from(bits).unwrap_or(u32::MAX)).into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(bits).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().expect(text)
    }

    #[test]
    fn what_can_be_given_out_leaves_network_and_broadcast_out() {
        for (text, count, first, last) in [
            ("10.96.0.0/16", 65_534, "10.96.0.1", "10.96.255.254"),
            ("10.96.0.9/30", 2, "10.96.0.9", "10.96.0.10"),
            ("fd00::/126", 3, "fd00::1", "fd00::3"),
        ] {
            let range = cidr(text);
            assert_eq!(range.host_count(), count, "{text}");
            assert_eq!((range.host(0).to_string().as_str(), range.host(count - 1).to_string().as_str()), (first, last));
            assert!([range.host(0), range.host(count - 1)].into_iter().all(|host| range.is_host(host) && range.contains(host)));
        }
        assert_eq!([cidr("10.1.9.0/32").host_count(), cidr("10.1.9.0/31").host_count()], [0, 0]);
        let range = cidr("10.0.0.0/24");
        for (address, holds) in [("10.0.0.0", false), ("10.0.0.255", false), ("10.0.1.1", false), ("10.0.0.1", true), ("::a00:1", false)] {
            assert_eq!(range.is_host(address.parse().expect(address)), holds, "{address}");
        }
        assert!(cidr("0.0.0.0/0").contains(Ipv4Addr::BROADCAST.into()) && cidr("::/0").contains(Ipv6Addr::UNSPECIFIED.into()));
    }

    #[test]
    fn a_part_of_a_range_is_smaller_and_inside() {
        let whole = cidr("10.0.0.0/8");
        for (part, holds) in [("10.1.0.0/16", true), ("10.0.0.0/8", false), ("11.0.0.0/16", false), ("fd00::/64", false)] {
            assert_eq!(whole.strictly_holds(&cidr(part)), holds, "{part}");
        }
    }

    #[test]
    fn ipv6_in_another_form_is_warned_about() {
        let path = Path::new("ip");
        let wanted = "ip: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")";
        assert_eq!(ip_warning(&path, "FD00::1").as_deref(), Some(wanted));
        let wanted = "ip: IPv6 CIDR value \"fd00:0::/64\" should be in RFC 5952 canonical format (\"fd00::/64\")";
        assert_eq!(network_warning(&path, "fd00:0::/64").as_deref(), Some(wanted));
        assert!(["fd00::1", "10.0.0.1", "010.0.0.1", "::FFFF:1.2.3.4", "x"].iter().all(|text| ip_warning(&path, text).is_none()));
    }

    #[test]
    fn faults_of_addresses_and_ranges_are_reported_in_upstreams_words() {
        let check = |check: fn(&str) -> Vec<String>, text: &str, wanted: &str| assert_eq!(check(text).join("; "), wanted, "{text}");
        check(check_ip, "010.0.0.1", "must not have leading 0s");
        check(check_ip, "fd00:0::1", "");
        check(check_ip, "foo", ADDRESS_FORM);
        check(check_ip, "::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address");
        check(check_canonical_ip, "10.0.0.1", "");
        check(check_canonical_ip, "fd00:0::1", "must be in canonical form (\"fd00::1\")");
        check(check_canonical_cidr, "10.1.3.7/24", "must not have bits set beyond the prefix length");
        check(check_canonical_cidr, "FD00::/112", "must be in canonical form (\"fd00::/112\")");
        check(check_canonical_cidr, "x", CIDR_FORM);
        check(check_network, "10.1.3.7/33", CIDR_FORM);
        check(check_network, "10.01.3.0/24", "must not have leading 0s in IP or prefix length");
        check(check_endpoint_ip, "127.0.0.1", "may not be in the loopback range (127.0.0.0/8, ::1/128)");
        check(check_endpoint_ip, "0.0.0.0", "may not be unspecified (0.0.0.0)");
        check(check_endpoint_ip, "::0", "may not be unspecified (::0)");
        check(check_endpoint_ip, "10.0.0.1", "");
    }
}
