//! The fold inputs of the events that change a trait, made once by the real validation of events.

use parallax::testing::record::{FoldInput, Record, RecordKind};

use crate::folded::with_fold_input;

/// The values of a trait: 1 to 9.
pub const VALUES: u8 = 9;

/// Encoded records with the fold inputs of all operations and values.
pub struct FoldInputs([Vec<Vec<u8>>; 3]);

impl FoldInputs {
    pub fn new() -> Self {
        let records = |operation: &str| {
            let record = |value: u8| {
                let payload = format!(r#"{{"{operation}":{{"plan":{value}}}}}"#);
                with_fold_input(RecordKind::Profile, &payload, |fold_input| {
                    assert_ne!(fold_input, FoldInput::EMPTY, "{payload} is a valid event");
                    let mut bytes = Vec::new();
                    let record = Record { fold_input, ..Record::new(RecordKind::Profile) };
                    record.encode(&mut bytes).expect("a small record");
                    bytes
                })
            };
            (1..=VALUES).map(record).collect()
        };
        Self([records("setOnce"), records("set"), records("increment")])
    }

    pub fn set_once(&self, value: u8) -> FoldInput<'_> {
        self.get(0, value)
    }

    pub fn set(&self, value: u8) -> FoldInput<'_> {
        self.get(1, value)
    }

    pub fn increment(&self, value: u8) -> FoldInput<'_> {
        self.get(2, value)
    }

    fn get(&self, operation: usize, value: u8) -> FoldInput<'_> {
        let bytes = &self.0[operation][usize::from(value) - 1];
        Record::decode(bytes).expect("a record").0.fold_input
    }
}
