//! The file of `--token-auth-file`: `token,user,uid,"group1,group2"`, a line each.

use super::User;

/// Why a token file is rejected. The error contains no tokens.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// A line has fewer columns than token, user and uid, or one of the first two is empty.
    #[error("line {line}: wanted token,user,uid and perhaps \"group1,group2\"")]
    Columns {
        /// The line number, from 1.
        line: usize,
    },
    /// A quote is not closed, or is in the middle of a column.
    #[error("line {line}: a quote does not enclose a whole column")]
    Quote {
        /// The line number, from 1.
        line: usize,
    },
}

/// Returns the tokens of a file with their users. Empty lines are ignored. The last one of equal tokens applies.
///
/// # Errors
/// [`TokenFileError`].
pub fn parse_token_file(text: &str) -> Result<Vec<(String, User)>, TokenFileError> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim())).filter(|(_, line)| !line.is_empty());
    lines.map(|(number, line)| parse_line(number, line)).collect()
}

fn parse_line(line: usize, text: &str) -> Result<(String, User), TokenFileError> {
    let columns = split_columns(text).ok_or(TokenFileError::Quote { line })?;
    match columns.as_slice() {
        [token, name, uid, rest @ ..] if !token.is_empty() && !name.is_empty() => {
            let groups: Vec<String> = rest
                .first()
                .into_iter()
                .flat_map(|groups| groups.split(','))
                .map(|group| group.trim().to_owned())
                .filter(|group| !group.is_empty())
                .collect();
            Ok((token.clone(), User { uid: uid.clone(), ..User::authenticated(name, &groups) }))
        }
        _ => Err(TokenFileError::Columns { line }),
    }
}

/// Splits a line of comma-separated values. `""` within quotes is a quote.
fn split_columns(text: &str) -> Option<Vec<String>> {
    let mut columns = Vec::new();
    let mut rest = text;
    loop {
        let (column, after) = match rest.trim_start().strip_prefix('"') {
            Some(quoted) => quoted_column(quoted)?,
            None => rest.split_once(',').map_or((rest.trim().to_owned(), None), |(column, after)| (column.trim().to_owned(), Some(after))),
        };
        if column.contains('"') && !rest.trim_start().starts_with('"') {
            return None;
        }
        columns.push(column);
        match after {
            Some(after) => rest = after,
            None => return Some(columns),
        }
    }
}

/// Returns the text up to the closing quote, and the rest after the comma that follows.
fn quoted_column(mut rest: &str) -> Option<(String, Option<&str>)> {
    let mut column = String::new();
    loop {
        let (before, after) = rest.split_once('"')?;
        column.push_str(before);
        if let Some(escaped) = after.strip_prefix('"') {
            column.push('"');
            rest = escaped;
            continue;
        }
        let after = after.trim_start();
        return match after.strip_prefix(',') {
            Some(after) => Some((column, Some(after))),
            None => after.is_empty().then_some((column, None)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_tokens_with_users() {
        let file = "t1,alice,u1,\"dev,ops\"\n\n t2 , bob , \nt3,carol,u3,dev\nt4,dora,,\"a \"\"b\"\"\",ignored\n";
        let found = parse_token_file(file).expect("a good file");
        let texts: Vec<String> =
            found.iter().map(|(token, user)| format!("{token} {} {} {:?}", user.name, user.uid, user.groups)).collect();
        assert_eq!(
            texts,
            [
                "t1 alice u1 [\"dev\", \"ops\", \"system:authenticated\"]",
                "t2 bob  [\"system:authenticated\"]",
                "t3 carol u3 [\"dev\", \"system:authenticated\"]",
                "t4 dora  [\"a \\\"b\\\"\", \"system:authenticated\"]",
            ]
        );
    }

    #[test]
    fn bad_lines_are_named() {
        for (file, error) in [
            ("t,alice", TokenFileError::Columns { line: 1 }),
            ("t,a,u\n,alice,u", TokenFileError::Columns { line: 2 }),
            ("t,a,u,\"dev", TokenFileError::Quote { line: 1 }),
            ("t,a\"b,u", TokenFileError::Quote { line: 1 }),
            ("t,a,u,\"dev\"x", TokenFileError::Quote { line: 1 }),
        ] {
            assert_eq!(parse_token_file(file), Err(error), "{file}");
        }
    }
}
