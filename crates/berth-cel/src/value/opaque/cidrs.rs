//! Ranges of addresses.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// A range of addresses: an address, and how many of its first bits all have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    pub(crate) address: IpAddr,
    pub(crate) bits: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// Why a text is not a range of addresses. The messages are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CidrError {
    #[error("network address parse error during conversion from string: netip.ParsePrefix(\"{text}\"): {why}")]
    Prefix { text: String, why: PrefixError },
    /// An address of version 4 in one of version 6.
    #[error("IPv4-mapped IPv6 address \"{0}\" is not allowed")]
    Mapped(String),
}

/// Why Go does not read a text as a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PrefixError {
    #[error("no '/'")]
    NoSlash,
    #[error("ParseAddr(\"{0}\"): unable to parse IP")]
    Address(String),
    #[error("bad bits after slash: \"{0}\"")]
    Bits(String),
    /// More bits than the address has.
    #[error("prefix length out of range")]
    Length,
}

fn length(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The first bits of an address.
fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0))),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0))),
    }
}

impl Cidr {
    /// Reads a range as Go does.
    pub(crate) fn parse(text: &str) -> Result<Self, CidrError> {
        let wrong = |why| CidrError::Prefix { text: text.to_owned(), why };
        let (address, bits) = text.rsplit_once('/').ok_or_else(|| wrong(PrefixError::NoSlash))?;
        let address: IpAddr = address.parse().map_err(|_| wrong(PrefixError::Address(address.to_owned())))?;
        if matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
            return Err(CidrError::Mapped(text.to_owned()));
        }
        let is_number = bits.bytes().all(|digit| digit.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
        let bits: u8 = bits.parse().ok().filter(|_| is_number).ok_or_else(|| wrong(PrefixError::Bits(bits.to_owned())))?;
        if length(address) < bits {
            return Err(wrong(PrefixError::Length));
        }
        Ok(Self { address, bits })
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && masked(address, self.bits) == masked(self.address, self.bits)
    }

    /// The range with its first address.
    pub(crate) fn masked(&self) -> Self {
        Self { address: masked(self.address, self.bits), bits: self.bits }
    }
}
