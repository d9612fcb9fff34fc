//! The effect of a change on each object, and how a simulation makes it.

use crate::{
    change::{Change, Edit, subject},
    difference::{creatable, difference},
    error::PlanError,
    extensions::{DEFINITIONS, Extensions, Role},
    simulation::{Simulation, Subject},
};
use berth_registry::ApiError;
use berth_workloads::workload::WorkloadId;
use serde_json::Value;
use std::error::Error;

/// The effect of a change on an object. `Null` if the object does not exist.
pub(crate) struct Changed {
    pub(crate) subject: Subject,
    pub(crate) before: Value,
    pub(crate) after: Value,
}

impl Changed {
    /// Makes a change with one write for each object, so that controllers never observe a partial change. Reviewers have reviewed it already.
    ///
    /// # Errors
    /// The errors of the API server.
    pub(crate) fn make(all: Vec<Self>, simulation: &mut Simulation) -> Result<(), PlanError> {
        for Self { subject, before, after } in all {
            let is_definition = subject.kind == DEFINITIONS.kind;
            if before.is_null() {
                simulation.make_namespace(&subject.namespace)?;
                simulation.apply_unreviewed(&creatable(&after), &subject.namespace)?;
            } else if let Some(patch) = difference(&before, &after) {
                simulation.patch_unreviewed(&subject, &patch)?;
            }
            if is_definition {
                simulation.definitions_served()?;
            }
        }
        Ok(())
    }

    /// Whether a write is necessary.
    pub(crate) fn is_news(&self) -> bool {
        self.before.is_null() || difference(&self.before, &self.after).is_some()
    }

    pub(crate) fn is_of(&self, workload: &WorkloadId) -> bool {
        self.subject == subject(workload)
    }
}

impl Change {
    /// The effect on each changed object, in order. Nothing is written.
    ///
    /// # Errors
    /// A missing workload or container, or an error of the API server.
    pub(crate) fn outcome(&self, simulation: &mut Simulation, extensions: &Extensions) -> Result<Vec<Changed>, PlanError> {
        let manifests = extensions.ordered(self);
        let is_stored = |role: Role| !matches!(role, Role::Checked | Role::Unknown);
        let stored = manifests.iter().filter(|(role, _)| is_stored(*role));
        let of_manifests = stored.map(|(_, manifest)| Subject::of(manifest, self.namespace_of(manifest)));
        let of_targets = self.targets()?.iter().map(subject).collect::<Vec<_>>();
        let mut subjects: Vec<Subject> = Vec::new();
        for subject in of_manifests.chain(of_targets) {
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
        }
        // Applied step by step in a separate simulation, whose controllers do not run.
        let mut aside = Simulation::new(0, simulation.now(), &simulation.server);
        extensions.copy(simulation, &mut aside)?;
        // The kinds of definitions of the change are not served yet.
        let mut existing = |subject: &Subject| if simulation.serves(&subject.kind) { simulation.get(subject) } else { Ok(Value::Null) };
        let before = subjects.iter().map(&mut existing).collect::<Result<Vec<_>, _>>()?;
        let copied = subjects.iter().map(|subject| extensions.copies(&subject.kind));
        aside.restore(before.iter().zip(copied).filter(|(object, is_copied)| !object.is_null() && !is_copied).map(|(object, _)| object))?;
        match &self.served {
            Some(answers) => {
                answers.iter().try_for_each(|answer| aside.take(answer))?;
                let is_answered = |manifest: &Value| {
                    let subject = Subject::of(manifest, self.namespace_of(manifest));
                    answers.iter().any(|answer| Subject::of(answer, "") == subject)
                };
                // Custom objects of kinds that the change defines.
                self.make_these(
                    &mut aside,
                    extensions,
                    manifests.into_iter().filter(|(role, manifest)| *role < Role::Simulated && !is_answered(manifest)),
                )?;
            }
            None => {
                self.make_these(&mut aside, extensions, manifests.into_iter())?;
                for Edit { workload, edits } in &self.edits {
                    edits.make(&mut aside, workload)?;
                }
            }
        }
        for target in self.targets()? {
            self.of_all(target.kind).make(&mut aside, &target)?;
        }
        let outcome = |(subject, before): (Subject, Value)| aside.get(&subject).map(|after| Changed { subject, before, after });
        subjects.into_iter().zip(before).map(outcome).collect()
    }

    /// Applies manifests. Notes what is not checked.
    fn make_these<'m>(
        &self,
        simulation: &mut Simulation,
        extensions: &Extensions,
        manifests: impl Iterator<Item = (Role, &'m Value)>,
    ) -> Result<(), PlanError> {
        let mut are_served = true;
        for (role, manifest) in manifests {
            if !are_served && role != Role::Definition {
                simulation.definitions_served()?;
                are_served = true;
            }
            let namespace = self.namespace_of(manifest);
            let subject = Subject::of(manifest, namespace);
            if role == Role::Unknown || !simulation.serves(&subject.kind) {
                extensions.note_unknown(&subject);
                continue;
            }
            simulation.make_namespace(namespace)?;
            match role {
                Role::Checked => match simulation.check(manifest, namespace) {
                    Ok(()) => (),
                    Err(error @ PlanError::Refused { source: ApiError::Denied { .. }, .. }) => return Err(error),
                    // The object may exist, with what the server has added to it.
                    Err(error) => {
                        extensions.note(format!("{} {} is not part of the plan: {}", subject.kind.kind, subject.name, chain(&error)));
                    }
                },
                _ => simulation.apply(manifest, namespace)?,
            }
            are_served &= role != Role::Definition;
        }
        Ok(())
    }
}

/// An error with its causes.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text.trim_end_matches('.').to_owned()
}
