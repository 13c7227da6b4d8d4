//! The properties of breakdowns of the records of a segment, in the columns of the segment.

use super::format::PROPERTY_TEXT_BYTES_MAX;
use super::goals::SitesGoals;
use super::texts::{TextBudget, TextWriter};
use crate::limits::PROPERTY_VALUE_BYTES_MAX;
use crate::site::goals::{Properties, SiteGoals};

/// A writer of the property columns. It has as many columns as the site with the most properties.
#[derive(Debug, Clone, Default)]
pub(super) struct PropertyWriter {
    columns: Vec<TextWriter>,
    /// The budget of each column.
    budgets: Vec<TextBudget>,
}

impl PropertyWriter {
    /// Creates a writer of the properties of these sites.
    pub(super) fn new(sites: &SitesGoals) -> Self {
        let count = sites.iter().map(|(_, goals)| goals.properties().len()).max().unwrap_or_default();
        let budget = TextBudget::new(PROPERTY_TEXT_BYTES_MAX);
        Self { columns: vec![TextWriter::default(); count], budgets: vec![budget; count] }
    }

    /// Adds the next row. `site` is `None` if the record is no event of a site with properties.
    pub(super) fn add(&mut self, site: Option<&SiteGoals>, properties: &Properties<'_>) {
        let paths = site.map_or(&[][..], SiteGoals::properties);
        for (number, (column, budget)) in self.columns.iter_mut().zip(&mut self.budgets).enumerate() {
            match paths.get(number).and_then(|path| properties.breakdown(path)) {
                Some(text) if text.len() > PROPERTY_VALUE_BYTES_MAX => column.push_other(),
                text => column.push(text.as_deref(), budget),
            }
        }
    }

    /// Returns the columns, in the order of the properties.
    pub(super) fn columns(&self) -> &[TextWriter] {
        &self.columns
    }
}
