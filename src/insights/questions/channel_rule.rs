//! Gives each event the channel of its source and its medium.

use super::blocks::TextBlock;
use super::channels::{Channel, channels_of_medium, channels_of_source, first_decided, is_referral_medium};
use super::site::SiteFacts;
use super::values::Values;
use crate::insights::columns::format::CODE_ABSENT;

/// The indices of the text columns that decide a channel.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChannelColumns {
    pub source: usize,
    pub referrer: usize,
    pub medium: usize,
}

/// The rule that gives an event the channel of its source and its medium.
pub(super) struct ChannelRule {
    columns: ChannelColumns,
    /// The channels that each code of the source column decides.
    by_source: Vec<u8>,
    /// The channels that each code of the referrer host decides. `None` for a host that is not external.
    by_referrer: Vec<Option<u8>>,
    /// The channels that each code of the medium decides.
    by_medium: Vec<u8>,
    /// For each code of the medium, true if it is the medium of a link.
    are_links: Vec<bool>,
    /// The number of the value of each channel.
    values: [u32; Channel::ALL.len()],
}

impl ChannelRule {
    pub(super) fn new(
        columns: ChannelColumns,
        text_blocks: &[TextBlock],
        site: &SiteFacts,
        values: &mut Values,
    ) -> Self {
        let texts = |column: usize| text_blocks[column].texts.iter();
        let referrer = |host: &String| site.is_external_host(host).then(|| channels_of_source(host));
        let mut by_referrer: Vec<Option<u8>> = texts(columns.referrer).map(referrer).collect();
        by_referrer[CODE_ABSENT as usize] = None;
        Self {
            columns,
            by_source: texts(columns.source).map(|source| channels_of_source(source)).collect(),
            by_referrer,
            by_medium: texts(columns.medium).map(|medium| channels_of_medium(medium)).collect(),
            are_links: texts(columns.medium).map(|medium| is_referral_medium(medium)).collect(),
            values: Channel::ALL.map(|channel| values.number(channel.name())),
        }
    }

    /// Returns the value of the channel of an event in the current block.
    pub(super) fn value(&self, row: usize, text_blocks: &[TextBlock]) -> u32 {
        let ChannelColumns { source, referrer, medium } = self.columns;
        let source = text_blocks[source].code(row);
        let referrer = self.by_referrer[text_blocks[referrer].code(row)];
        let medium = text_blocks[medium].code(row);
        let is_tagged = source != CODE_ABSENT as usize;
        let is_direct = !is_tagged && referrer.is_none();
        let by_source = if is_tagged { self.by_source[source] } else { referrer.unwrap_or_default() };
        let channel = first_decided(by_source | self.by_medium[medium]).unwrap_or({
            if is_direct && medium == CODE_ABSENT as usize {
                Channel::Direct
            } else if !is_tagged && !is_direct || self.are_links[medium] {
                Channel::Referral
            } else {
                Channel::Other
            }
        });
        self.values[channel as usize]
    }
}
