//! Export of records as rows of a Parquet file.
//!
//! The columns are the members of an NDJSON line ([`super::export`]), in the same order. `seq` is a BIGINT,
//! times are UTC in microseconds, and `payload` is JSON text. Row groups are bounded, so an export of any
//! length needs the memory of one row group.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use super::export::with_columns;
use crate::record::Record;

/// Rows of one row group of an exported Parquet file. A row group is built in memory, which takes about three
/// times its size. Readers want groups that are large enough to be worth skipping.
pub const ROW_GROUP_ROWS_MAX: usize = 64 * 1024;
/// Text bytes of one row group. See [`ROW_GROUP_ROWS_MAX`].
pub const ROW_GROUP_BYTES_MAX: usize = 16 << 20;

const SCHEMA: &str = "message record {
    REQUIRED INT64 seq;
    REQUIRED INT64 receivedAt (TIMESTAMP(MICROS,true));
    REQUIRED INT64 timestamp (TIMESTAMP(MICROS,true));
    OPTIONAL INT64 clientTimestamp (TIMESTAMP(MICROS,true));
    OPTIONAL INT64 sentAt (TIMESTAMP(MICROS,true));
    OPTIONAL BYTE_ARRAY site (STRING);
    REQUIRED BYTE_ARRAY type (STRING);
    OPTIONAL BYTE_ARRAY messageId (STRING);
    OPTIONAL BYTE_ARRAY anonId (STRING);
    OPTIONAL BYTE_ARRAY userId (STRING);
    OPTIONAL BYTE_ARRAY tied (STRING);
    OPTIONAL BYTE_ARRAY event (STRING);
    OPTIONAL BYTE_ARRAY name (STRING);
    OPTIONAL BYTE_ARRAY path (STRING);
    REQUIRED BOOLEAN bot;
    REQUIRED BOOLEAN gpc;
    OPTIONAL BYTE_ARRAY variants (STRING);
    OPTIONAL BYTE_ARRAY experiments (STRING);
    OPTIONAL BYTE_ARRAY referrerHost (STRING);
    OPTIONAL BYTE_ARRAY source (STRING);
    OPTIONAL BYTE_ARRAY medium (STRING);
    OPTIONAL BYTE_ARRAY campaign (STRING);
    OPTIONAL BYTE_ARRAY term (STRING);
    OPTIONAL BYTE_ARRAY content (STRING);
    OPTIONAL BYTE_ARRAY device (STRING);
    OPTIONAL BYTE_ARRAY os (STRING);
    OPTIONAL BYTE_ARRAY browser (STRING);
    OPTIONAL BYTE_ARRAY country (STRING);
    OPTIONAL BYTE_ARRAY language (STRING);
    OPTIONAL BYTE_ARRAY ip (STRING);
    REQUIRED BYTE_ARRAY payload (JSON);
}";

/// A writer of one Parquet file.
pub(crate) struct Table<W: Write + Send> {
    file: SerializedFileWriter<W>,
    group: Group,
}

/// The row group being filled: its columns by type, each in the schema's order.
#[derive(Default)]
struct Group {
    numbers: [Numbers; 5],
    truths: [Vec<bool>; 2],
    texts: [Texts; 24],
    rows: usize,
    text_bytes: usize,
}

/// A column of optional numbers.
#[derive(Default)]
struct Numbers {
    values: Vec<i64>,
    /// As in [`Texts`].
    levels: Vec<i16>,
}

/// A column of optional texts, concatenated.
#[derive(Default)]
struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// The definition level of each row: 1 if it has a text, 0 if it is null.
    levels: Vec<i16>,
}

impl<W: Write + Send> Table<W> {
    /// Starts a file in `out`.
    ///
    /// # Errors
    /// An I/O error of `out`.
    pub(crate) fn new(out: W) -> io::Result<Self> {
        let schema = Arc::new(parse_message_type(SCHEMA).expect("the schema is valid"));
        // A dictionary saves nothing for columns whose values are unique, and nobody filters by the largest
        // payload.
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("parallax ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_column_dictionary_enabled(ColumnPath::from("messageId"), false)
            .set_column_dictionary_enabled(ColumnPath::from("payload"), false)
            .set_column_statistics_enabled(ColumnPath::from("payload"), EnabledStatistics::None)
            .build();
        let file = SerializedFileWriter::new(out, schema, Arc::new(properties)).map_err(io_error)?;
        Ok(Self { file, group: Group::default() })
    }

    /// Adds a record with its sequence number.
    ///
    /// # Errors
    /// An I/O error of the output, or `InvalidData` for a sequence number of 2^63 or more.
    pub(crate) fn add(&mut self, seq: u64, record: &Record<'_>) -> io::Result<()> {
        let seq = i64::try_from(seq).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.group.add(seq, record);
        if self.group.is_full() {
            self.end_group()?;
        }
        Ok(())
    }

    /// Writes the last row group and the footer, and returns the output.
    ///
    /// # Errors
    /// An I/O error of the output.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        if self.group.rows > 0 {
            self.end_group()?;
        }
        self.file.into_inner().map_err(io_error)
    }

    fn end_group(&mut self) -> io::Result<()> {
        std::mem::take(&mut self.group).write(&mut self.file).map_err(io_error)
    }
}

impl Group {
    fn add(&mut self, seq: i64, record: &Record<'_>) {
        with_columns(record, |times, texts| {
            let micros = times.map(|time_ms| time_ms.map(|time_ms| time_ms * 1000));
            let numbers = [Some(seq)].into_iter().chain(micros);
            self.numbers.iter_mut().zip(numbers).for_each(|(column, number)| column.push(number));
            self.truths
                .iter_mut()
                .zip([record.bot, record.gpc])
                .for_each(|(column, truth)| column.push(truth));
            self.texts.iter_mut().zip(texts).for_each(|(column, text)| column.push(text));
            self.text_bytes += texts.iter().flatten().map(|text| text.len()).sum::<usize>();
        });
        self.rows += 1;
    }

    fn is_full(&self) -> bool {
        self.rows >= ROW_GROUP_ROWS_MAX || self.text_bytes >= ROW_GROUP_BYTES_MAX
    }

    fn write<W: Write + Send>(self, file: &mut SerializedFileWriter<W>) -> Result<(), ParquetError> {
        let mut numbers = self.numbers.into_iter();
        let mut truths = self.truths.into_iter();
        let mut texts = self.texts.into_iter();
        let mut group = file.next_row_group()?;
        while let Some(mut column) = group.next_column()? {
            match column.untyped() {
                ColumnWriter::Int64ColumnWriter(to) => {
                    let Numbers { values, levels } = numbers.next().unwrap_or_default();
                    let is_optional = to.get_descriptor().max_def_level() > 0;
                    to.write_batch(&values, is_optional.then_some(&levels), None)?
                }
                ColumnWriter::BoolColumnWriter(to) => {
                    to.write_batch(&truths.next().unwrap_or_default(), None, None)?
                }
                ColumnWriter::ByteArrayColumnWriter(to) => {
                    let (values, levels) = texts.next().unwrap_or_default().into_values();
                    let is_optional = to.get_descriptor().max_def_level() > 0;
                    to.write_batch(&values, is_optional.then_some(&levels), None)?
                }
                _ => unreachable!("the schema has these types"),
            };
            column.close()?;
        }
        group.close().map(drop)
    }
}

impl Numbers {
    fn push(&mut self, number: Option<i64>) {
        self.levels.push(i16::from(number.is_some()));
        self.values.extend(number);
    }
}

impl Texts {
    fn push(&mut self, text: Option<&str>) {
        self.levels.push(i16::from(text.is_some()));
        if let Some(text) = text {
            self.bytes.extend_from_slice(text.as_bytes());
            self.ends.push(self.bytes.len());
        }
    }

    /// Returns the texts that are not null, which share one buffer, and the definition levels.
    fn into_values(self) -> (Vec<ByteArray>, Vec<i16>) {
        let all = ByteArray::from(self.bytes);
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let values = starts.zip(&self.ends).map(|(start, end)| all.slice(start, end - start)).collect();
        (values, self.levels)
    }
}

/// Unwraps the I/O error, if the error is one.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => cause.downcast().map_or_else(io::Error::other, |error| *error),
        other => io::Error::other(other),
    }
}
