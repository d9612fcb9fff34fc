//! Rejects unsafe requests before their session is read.
//!
//! A name that resolves to loopback (DNS rebinding) makes another site's requests appear as same-origin. The guard
//! therefore checks the `Host`. All ports of a host share cookies, and `SameSite` ignores ports. A session's cookie is
//! therefore limited to a random path, so that browsers send it to no other port. A request with a side effect must
//! come from a page of the dashboard: the guard checks its `Origin` and a token that only these pages contain.

use crate::session::{Session, is_same};
use hyper::{
    HeaderMap, Method, StatusCode,
    header::{COOKIE, HOST, HeaderName, HeaderValue, ORIGIN},
};
use std::net::{IpAddr, SocketAddr};

/// The browser's classification of a request's origin.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The maximum number of cookies with one name that are read.
const COOKIES_MAX: usize = 16;

/// The addresses of the dashboard, as browsers name them.
#[derive(Clone, Debug)]
pub(crate) struct ServerAddress {
    /// Hosts in lower case: `127.0.0.1:8443`, `localhost:8443`, ….
    hosts: Vec<String>,
    is_tls: bool,
    port: u16,
}

/// Why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The request is for another host.
    Host,
    /// The method is not GET, HEAD or POST.
    Method,
    /// A request with a side effect comes from another origin.
    Origin,
    /// The form does not have the session's token.
    Form,
}

impl Refused {
    pub(crate) fn code(self) -> StatusCode {
        match self {
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Origin | Self::Form => StatusCode::FORBIDDEN,
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Host => "this page is not served under that name\n",
            Self::Method => "only GET and POST are known here\n",
            Self::Origin => "nothing was done: the request does not come from this page\n",
            Self::Form => "nothing was done: this form is from an earlier session. Go back, reload the page, and repeat\n",
        }
    }
}

impl ServerAddress {
    /// Returns the addresses of a server that listens at `address`. `names` are additional host names.
    pub(crate) fn new(address: SocketAddr, names: &[String], is_tls: bool) -> Self {
        let loopback = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned);
        let own = match address.ip() {
            ip if ip.is_unspecified() => Vec::new(),
            IpAddr::V4(ip) => vec![ip.to_string()],
            IpAddr::V6(ip) => vec![format!("[{ip}]")],
        };
        let is_loopback = address.ip().is_loopback() || address.ip().is_unspecified();
        let all = own.into_iter().chain(names.iter().cloned()).chain(loopback.into_iter().filter(|_| is_loopback));
        let port = address.port();
        let usual = if is_tls { 443 } else { 80 };
        let with_port = |host: String| {
            let host = host.to_ascii_lowercase();
            let bare = (port == usual).then(|| host.clone());
            [Some(format!("{host}:{port}")), bare].into_iter().flatten()
        };
        Self { hosts: all.flat_map(with_port).collect(), is_tls, port }
    }

    /// Returns the cookie's name. It contains the port, so that two dashboards on one host do not overwrite each
    /// other's cookie.
    pub(crate) fn cookie(&self) -> String {
        // Browsers accept this prefix only from a secure page.
        let prefix = if self.is_tls { "__Secure-" } else { "" };
        format!("{prefix}berth-{}", self.port)
    }

    /// Checks the host, the method and the origin of a request.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), Refused> {
        let host = only(headers, &HOST).map(str::to_ascii_lowercase).filter(|host| self.hosts.contains(host)).ok_or(Refused::Host)?;
        match *method {
            Method::GET | Method::HEAD => Ok(()),
            Method::POST => {
                let scheme = if self.is_tls { "https" } else { "http" };
                let is_ours = only(headers, &ORIGIN).is_some_and(|origin| origin.eq_ignore_ascii_case(&format!("{scheme}://{host}")));
                let is_told_so = headers.get(SEC_FETCH_SITE).is_none_or(|site| site == "same-origin");
                if is_ours && is_told_so { Ok(()) } else { Err(Refused::Origin) }
            }
            _ => Err(Refused::Method),
        }
    }

    /// Returns all values of the session's cookie. Another port of this host can set a cookie of the same name, which
    /// matches no session.
    pub(crate) fn session_cookies<'h>(&self, headers: &'h HeaderMap) -> Vec<&'h str> {
        let name = self.cookie();
        let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(';'));
        let ours = all.filter_map(|pair| pair.trim().split_once('=')).filter(|(key, _)| *key == name).map(|(_, value)| value);
        ours.take(COOKIES_MAX).collect()
    }

    /// Returns the header that sets the cookie for the pages below `base`. An empty value deletes it.
    pub(crate) fn set_cookie(&self, value: &str, base: &str) -> HeaderValue {
        let secure = if self.is_tls { "; Secure" } else { "" };
        let age = if value.is_empty() { "; Max-Age=0" } else { "" };
        let text = format!("{}={value}; Path={base}; HttpOnly; SameSite=Strict{secure}{age}", self.cookie());
        HeaderValue::from_str(&text).expect("secrets are plain letters")
    }
}

/// Checks that a form comes from a page of this session.
///
/// # Errors
/// [`Refused::Form`].
pub(crate) fn check_form(session: &Session, given: Option<&str>) -> Result<(), Refused> {
    given.filter(|given| is_same(given, &session.form_token)).map(drop).ok_or(Refused::Form)
}

/// Whether the user followed a link of another site. Browsers omit a strict cookie then.
pub(crate) fn comes_from_elsewhere(headers: &HeaderMap) -> bool {
    headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "cross-site")
}

/// Returns the value of a header that occurs exactly once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first)
}

/// The security headers of every response: browsers must not cache, frame or sniff it, send a referrer, or load
/// anything but the dashboard's own files.
pub(crate) const HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'",
    ),
    ("cache-control", "no-store"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn server_address() -> ServerAddress {
        ServerAddress::new("127.0.0.1:7777".parse().expect("an address"), &[], false)
    }

    fn check(method: &Method, headers: &[(&'static str, &str)]) -> Result<(), Refused> {
        server_address().check(method, &map(headers))
    }

    fn map(headers: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| (HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"));
        headers.iter().map(pair).collect()
    }

    #[test]
    fn a_request_is_for_us_by_its_host_alone() {
        for host in ["127.0.0.1:7777", "localhost:7777", "LOCALHOST:7777", "[::1]:7777"] {
            assert_eq!(check(&Method::GET, &[("host", host)]), Ok(()), "{host}");
        }
        for host in ["evil.example:7777", "127.0.0.1", "127.0.0.1:7778", "localhost.evil.example:7777", "", "127.0.0.1:7777.evil.example"] {
            assert_eq!(check(&Method::GET, &[("host", host)]), Err(Refused::Host), "{host}");
        }
        assert_eq!(check(&Method::GET, &[]), Err(Refused::Host));
        let mut twice = map(&[("host", "127.0.0.1:7777")]);
        twice.append(HOST, HeaderValue::from_static("evil.example"));
        assert_eq!(server_address().check(&Method::GET, &twice), Err(Refused::Host));
        let elsewhere = ServerAddress::new("192.0.2.1:443".parse().expect("an address"), &["berth.example".to_owned()], true);
        let found = |host: &str| elsewhere.check(&Method::GET, &map(&[("host", host)])).is_ok();
        assert_eq!(["192.0.2.1", "berth.example", "berth.example:443", "localhost"].map(found), [true, true, true, false]);
    }

    #[test]
    fn what_changes_something_comes_from_our_page() {
        let host = ("host", "localhost:7777");
        let post = |more: &[(&'static str, &str)]| check(&Method::POST, &[&[host], more].concat());
        assert_eq!(post(&[("origin", "http://localhost:7777")]), Ok(()));
        assert_eq!(post(&[("origin", "http://localhost:7777"), ("sec-fetch-site", "same-origin")]), Ok(()));
        for origin in ["http://localhost:7778", "http://127.0.0.1:7777", "https://localhost:7777", "null", "http://evil.example", ""] {
            assert_eq!(post(&[("origin", origin)]), Err(Refused::Origin), "{origin}");
        }
        assert_eq!(post(&[]), Err(Refused::Origin));
        assert_eq!(post(&[("origin", "http://localhost:7777"), ("sec-fetch-site", "same-site")]), Err(Refused::Origin));
        for method in [Method::PUT, Method::DELETE, Method::OPTIONS, Method::CONNECT, Method::PATCH] {
            assert_eq!(check(&method, &[host, ("origin", "http://localhost:7777")]), Err(Refused::Method), "{method}");
        }
    }

    #[test]
    fn no_script_other_site_or_other_port_gets_the_cookie() {
        let cookies = |text: &str| server_address().session_cookies(&map(&[("cookie", text)])).join(" ");
        assert_eq!(cookies("a=b; berth-7777=secret; c=d"), "secret");
        assert_eq!(cookies("berth-7778=secret"), "");
        assert_eq!(cookies("berth-7777=one; berth-7777=two"), "one two");
        assert_eq!(cookies(&"berth-7777=a;".repeat(100)).len(), 2 * COOKIES_MAX - 1);
        assert_eq!(server_address().set_cookie("s", "/~b"), "berth-7777=s; Path=/~b; HttpOnly; SameSite=Strict");
        let tls = ServerAddress::new("192.0.2.1:8443".parse().expect("an address"), &[], true);
        assert_eq!(tls.set_cookie("", "/~b"), "__Secure-berth-8443=; Path=/~b; HttpOnly; SameSite=Strict; Secure; Max-Age=0");
    }
}
