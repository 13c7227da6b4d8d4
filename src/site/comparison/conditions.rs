//! The identity of a condition. Conditions with the same identity hold for the same visitors at every time, also in two versions
//! of a site.

use std::cell::OnceCell;

use crate::checksum::hash128;
use crate::site::snapshot::format::{ArchivedCondition, ArchivedSite};
use crate::varint::put_sized;

/// The identities of the conditions of a site.
pub(crate) struct ConditionIdentities<'s> {
    site: &'s ArchivedSite,
    /// By the index of the audience. Several audiences can name one audience.
    audiences: Vec<OnceCell<u128>>,
}

impl<'s> ConditionIdentities<'s> {
    pub(crate) fn new(site: &'s ArchivedSite) -> Self {
        Self { site, audiences: vec![OnceCell::new(); site.audiences.len()] }
    }

    /// Returns the identity of an audience: that of its condition.
    pub(crate) fn of_audience(&self, index: usize) -> u128 {
        // Verification of the snapshot refuses audiences that name each other in a circle.
        *self.audiences[index].get_or_init(|| self.of(&self.site.audiences[index].condition))
    }

    /// Returns the identity of a condition: a hash of its text, of the groups, the audiences and the goals that it names, and of the
    /// time zone if it reads the local time.
    pub(crate) fn of(&self, condition: &ArchivedCondition) -> u128 {
        let mut input = Vec::new();
        put_sized(&mut input, condition.authored.as_bytes());
        if condition.authored.contains("\"now.") {
            put_sized(&mut input, self.site.time_zone.as_bytes());
        }
        if condition.authored.contains("\"goals.") {
            for (code, name) in condition.program.fields() {
                put_sized(&mut input, &code.to_le_bytes());
                put_sized(&mut input, name.as_bytes());
            }
        }
        for group in condition.program.groups() {
            let members: Vec<_> = group.iter().map(|member| member.value().to_json()).collect();
            put_sized(&mut input, serde_json::Value::from(members).to_string().as_bytes());
        }
        for audience in condition.program.audiences() {
            put_sized(&mut input, &self.of_audience(usize::from(audience)).to_le_bytes());
        }
        hash128(&input)
    }
}
