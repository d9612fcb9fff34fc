//! Whether a type fits another, and what the unknown types in them then are.
//!
//! Source: cel-go `checker/types.go`.

use crate::Type;

/// What is known about unknown types.
#[derive(Debug, Default)]
pub(crate) struct Known {
    types: Vec<Option<Type>>,
    /// What was known before, to undo an attempt.
    undo: Vec<(u32, Option<Type>)>,
}

impl Known {
    /// A new unknown type.
    pub(crate) fn fresh(&mut self) -> Type {
        self.types.push(None);
        Type::Variable(u32::try_from(self.types.len() - 1).unwrap_or(u32::MAX))
    }

    fn get(&self, number: u32) -> Option<&Type> {
        self.types.get(number as usize)?.as_ref()
    }

    fn set(&mut self, number: u32, known: Type) {
        if let Some(slot) = self.types.get_mut(number as usize) {
            self.undo.push((number, slot.replace(known)));
        }
    }

    /// The type with all that is known. `or_dyn`: what is unknown becomes `dyn`.
    pub(crate) fn resolve(&self, of: &Type, or_dyn: bool) -> Type {
        let inner = |of: &Type| self.resolve(of, or_dyn);
        match of {
            Type::Variable(number) => match self.get(*number) {
                Some(known) => inner(known),
                None if or_dyn => Type::Dyn,
                None => of.clone(),
            },
            Type::List(elements) => Type::list(inner(elements)),
            Type::Map(both) => Type::map(inner(&both.0), inner(&both.1)),
            Type::Optional(value) => Type::optional(inner(value)),
            Type::Type(value) => Type::Type(Box::new(inner(value))),
            other => other.clone(),
        }
    }

    /// Whether values of all types can be used as values of the others. If so, notes what follows from it.
    pub(crate) fn assign_all(&mut self, types: &[Type], others: &[Type]) -> bool {
        let fits = types.len() == others.len() && types.iter().zip(others).all(|(one, other)| self.assignable(one, other));
        for (number, before) in std::mem::take(&mut self.undo).into_iter().rev() {
            if !fits && let Some(slot) = self.types.get_mut(number as usize) {
                *slot = before;
            }
        }
        fits
    }

    /// The same for one type.
    pub(crate) fn assign(&mut self, one: &Type, other: &Type) -> bool {
        self.assign_all(std::slice::from_ref(one), std::slice::from_ref(other))
    }

    fn assignable(&mut self, one: &Type, other: &Type) -> bool {
        if let Type::Variable(number) = other {
            let has_known = self.get(*number).is_some();
            if self.substitute(one, *number) {
                return true;
            }
            if has_known {
                return false;
            }
        }
        if let Type::Variable(number) = one {
            return self.substitute(other, *number);
        }
        if one.is_dyn_or_error() || other.is_dyn_or_error() {
            return true;
        }
        match (one, other) {
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null
                    | Type::Object(_)
                    | Type::Opaque(_)
                    | Type::Constructed(_)
                    | Type::Optional(_)
                    | Type::Timestamp
                    | Type::Duration
            ),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => self.assignable(one, other),
            (Type::Map(one), Type::Map(other)) => self.assignable(&one.0, &other.0) && self.assignable(&one.1, &other.1),
            (one, other) => one == other,
        }
    }

    /// Whether the unknown type can be this type.
    fn substitute(&mut self, this: &Type, number: u32) -> bool {
        if this == &Type::Variable(number) {
            return true;
        }
        let Some(known) = self.get(number).cloned() else {
            let is_free = !self.occurs(number, this);
            if is_free {
                self.set(number, this.clone());
            }
            return is_free;
        };
        if this == &known {
            return true;
        }
        if !self.assignable(this, &known) {
            return false;
        }
        let general = most_general(this, &known).clone();
        if !self.occurs(number, &general) {
            self.set(number, general);
        }
        true
    }

    /// Whether the unknown type is a part of the other.
    fn occurs(&self, number: u32, within: &Type) -> bool {
        match within {
            Type::Variable(other) if *other == number => true,
            Type::Variable(other) => self.get(*other).is_some_and(|known| self.occurs(number, known)),
            other => other.parameters().into_iter().any(|inner| self.occurs(number, inner)),
        }
    }
}

/// The type of which values of both are.
pub(crate) fn most_general<'a>(one: &'a Type, other: &'a Type) -> &'a Type {
    if is_less_specific(one, other) { one } else { other }
}

fn is_less_specific(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::Dyn | Type::Variable(_), _) | (Type::Type(_), Type::Type(_)) => true,
        (_, Type::Dyn | Type::Variable(_)) => false,
        (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => is_less_specific(one, other),
        (Type::Map(one), Type::Map(other)) => is_less_specific(&one.0, &other.0) && is_less_specific(&one.1, &other.1),
        (one, other) => one == other,
    }
}
