//! What the expressions of a policy depend on.

use super::{Expression, Policy};

impl Policy {
    /// Whether an expression names what depends on the user of a request: `request.userInfo` or `authorizer`. An expression that has these words
    /// for something else counts too.
    #[must_use]
    pub fn reads_user(&self) -> bool {
        self.expressions().any(|expression| ["userInfo", "authorizer"].iter().any(|word| expression.source.contains(word)))
    }

    /// Returns why one of its expressions does not compile. `None`: all do.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.expressions().find_map(|expression| expression.program.as_ref().err()).map(|error| error.0.to_string())
    }

    fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let validations = self
            .validations
            .iter()
            .flat_map(|validation| [Some(&validation.rule), validation.message_expression.as_ref()].into_iter().flatten());
        let named = self.variables.iter().chain(&self.annotations).map(|(_, expression)| expression);
        self.conditions.expressions().chain(named).chain(validations).chain(self.mutations.iter().map(|mutation| &mutation.expression))
    }
}
