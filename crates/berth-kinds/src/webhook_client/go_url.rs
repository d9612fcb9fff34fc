//! URLs as Go's `net/url` reads them, with its words.

/// The parts of a URL that upstream's parser finds.
pub(super) struct GoUrl<'u> {
    pub(super) scheme: String,
    pub(super) user: Option<&'u str>,
    pub(super) host: &'u str,
    pub(super) query: &'u str,
    pub(super) fragment: &'u str,
}

/// Why a text is no URL.
#[derive(Debug, thiserror::Error)]
pub(super) enum GoUrlError {
    #[error("net/url: invalid control character in URL")]
    ControlCharacter,
    #[error("first path segment in URL cannot contain colon")]
    ColonInFirstSegment,
    #[error("missing protocol scheme")]
    MissingScheme,
    #[error("missing ']' in host")]
    OpenHost,
    #[error("invalid port {0:?} after host")]
    Port(String),
    #[error("invalid character {0:?} in host name")]
    HostCharacter(String),
    #[error("invalid URL escape {0:?}")]
    Escape(String),
}

impl<'u> GoUrl<'u> {
    pub(super) fn parse(text: &'u str) -> Result<Self, GoUrlError> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err(GoUrlError::ControlCharacter);
        }
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (scheme, rest) = scheme(rest)?;
        if scheme.is_empty() && rest.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err(GoUrlError::ColonInFirstSegment);
        }
        let (authority, location) = match rest.strip_prefix("//") {
            Some(rest) => rest.find('/').map_or((rest, ""), |at| rest.split_at(at)),
            None => ("", rest),
        };
        let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        check_host(host)?;
        check_escapes(location)?;
        Ok(Self { scheme: scheme.to_ascii_lowercase(), user, host, query, fragment })
    }
}

fn scheme(text: &str) -> Result<(&str, &str), GoUrlError> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => (),
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => (),
            b':' if at == 0 => return Err(GoUrlError::MissingScheme),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn check_host(host: &str) -> Result<(), GoUrlError> {
    let after = match host.strip_prefix('[') {
        Some(rest) => rest.rsplit_once(']').ok_or(GoUrlError::OpenHost)?.1,
        None => host.rfind(':').map_or("", |at| &host[at..]),
    };
    let is_port = after.is_empty() || after.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_port {
        return Err(GoUrlError::Port(after.to_owned()));
    }
    match host.chars().find(|sign| matches!(sign, ' ' | '"' | '\\' | '^' | '`' | '{' | '|' | '}')) {
        Some(sign) => Err(GoUrlError::HostCharacter(sign.to_string())),
        None => Ok(()),
    }
}

fn check_escapes(location: &str) -> Result<(), GoUrlError> {
    for (at, _) in location.match_indices('%') {
        let escape: String = location[at..].chars().take(3).collect();
        if !(escape.len() == 3 && escape.bytes().skip(1).all(|byte| byte.is_ascii_hexdigit())) {
            return Err(GoUrlError::Escape(escape));
        }
    }
    Ok(())
}
