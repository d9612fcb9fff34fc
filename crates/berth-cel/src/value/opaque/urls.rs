//! URLs, as Go's `net/url` reads them.

/// The parts of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    user: Option<String>,
    /// With the port.
    pub(crate) host: String,
    /// With escapes.
    pub(crate) path: String,
    pub(crate) query: String,
    fragment: String,
}

/// Why a text is not the URL of a request. The messages are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UrlError {
    #[error("empty url")]
    Empty,
    #[error("net/url: invalid control character in URL")]
    ControlCharacter,
    #[error("invalid URL escape \"{0}\"")]
    Escape(String),
    #[error("missing protocol scheme")]
    NoScheme,
    /// Neither absolute nor an absolute path.
    #[error("invalid URI for request")]
    Relative,
    #[error("net/url: invalid userinfo")]
    User,
    #[error("missing ']' in host")]
    NoBracket,
    #[error("invalid character \"{0}\" in host name")]
    Host(char),
    #[error("invalid port \"{0}\" after host")]
    Port(String),
}

impl Url {
    pub(crate) fn parse(text: &str) -> Result<Self, UrlError> {
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err(UrlError::ControlCharacter);
        }
        if text.is_empty() {
            return Err(UrlError::Empty);
        }
        let mut url = Self::default();
        let (mut rest, fragment) = text.split_once('#').map_or((text, ""), |(rest, fragment)| (rest, fragment));
        check_escapes(fragment, false)?;
        fragment.clone_into(&mut url.fragment);
        if let Some((scheme, after)) = scheme(rest)? {
            url.scheme = scheme.to_ascii_lowercase();
            rest = after;
        }
        if let Some((before, query)) = rest.split_once('?') {
            query.clone_into(&mut url.query);
            rest = before;
        }
        if !rest.starts_with('/') {
            // A scheme with an opaque part is a URL. Anything else is not the URL of a request.
            return if url.scheme.is_empty() { Err(UrlError::Relative) } else { Ok(url) };
        }
        if let Some(after) = rest.strip_prefix("//").filter(|_| !url.scheme.is_empty()) {
            let end = after.find('/').unwrap_or(after.len());
            url.read_authority(&after[..end])?;
            rest = &after[end..];
        }
        check_escapes(rest, false)?;
        rest.clone_into(&mut url.path);
        Ok(url)
    }

    fn read_authority(&mut self, authority: &str) -> Result<(), UrlError> {
        let host = match authority.rsplit_once('@') {
            Some((user, host)) => {
                let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
                if !user.bytes().all(is_allowed) {
                    return Err(UrlError::User);
                }
                check_escapes(user, false)?;
                self.user = Some(user.to_owned());
                host
            }
            None => authority,
        };
        let port = if host.starts_with('[') {
            let end = host.rfind(']').ok_or(UrlError::NoBracket)?;
            &host[end + 1..]
        } else {
            host.rfind(':').map_or("", |at| &host[at..])
        };
        let is_port =
            |port: &str| port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|digit| digit.is_ascii_digit()));
        if !is_port(port) {
            return Err(UrlError::Port(port.to_owned()));
        }
        check_escapes(host, true)?;
        if let Some(wrong) = host.chars().find(|character| character.is_ascii() && !is_host_character(*character)) {
            return Err(UrlError::Host(wrong));
        }
        host.clone_into(&mut self.host);
        Ok(())
    }

    /// The host without its port, and the port.
    pub(crate) fn divided_host(&self) -> (&str, &str) {
        let (host, port) = match self.host.rfind(':') {
            Some(at) if self.host[at + 1..].bytes().all(|digit| digit.is_ascii_digit()) => (&self.host[..at], &self.host[at + 1..]),
            _ => (self.host.as_str(), ""),
        };
        (host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host), port)
    }
}

/// The scheme of a URL, and the rest.
fn scheme(text: &str) -> Result<Option<(&str, &str)>, UrlError> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => (),
            b'0'..=b'9' | b'+' | b'-' | b'.' if 0 < at => (),
            b':' if at == 0 => return Err(UrlError::NoScheme),
            b':' => return Ok(Some((&text[..at], &text[at + 1..]))),
            _ => return Ok(None),
        }
    }
    Ok(None)
}

fn is_host_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:[]<>\"%".contains(character)
}

/// Each percent sign begins an escape.
pub(crate) fn check_escapes(text: &str, is_host: bool) -> Result<(), UrlError> {
    for (at, _) in text.match_indices('%') {
        let escape = text.as_bytes().get(at + 1..at + 3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        if escape.is_none() || (is_host && escape.is_some_and(|digits| digits[0] < b'8' && digits != b"25")) {
            return Err(UrlError::Escape(text[at..].chars().take(3).collect()));
        }
    }
    Ok(())
}
