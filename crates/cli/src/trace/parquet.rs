//! A trace as a Parquet table, typed, for dataframes.

use std::io::Write;
use std::sync::Arc;

use neurogc_wire::trace::{Record, Trace};
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use super::columns::{COLUMNS, Cell};

/// Rows that are held in memory as columns at a time.
const GROUP: usize = 1 << 17;

/// The key under which the trace's header is kept as JSON.
const HEADER_KEY: &str = "neurogc";

/// Writes the whole table.
pub(crate) fn write(trace: &Trace, to: &mut (impl Write + Send)) -> Result<()> {
    let header = serde_json::to_string(&trace.header).unwrap_or_default();
    let metadata = vec![KeyValue::new(HEADER_KEY.to_owned(), header)];
    let properties = WriterProperties::builder().set_key_value_metadata(Some(metadata)).build();
    let mut file = SerializedFileWriter::new(to, schema()?, Arc::new(properties))?;
    for records in trace.records.chunks(GROUP) {
        write_group(records, &mut file)?;
    }
    file.close()?;
    Ok(())
}

/// Every column may be empty but for the first two, which every record has; they are optional all the same, so that
/// one way of writing serves all.
fn schema() -> Result<TypePtr> {
    let fields = COLUMNS.iter().map(|column| {
        let (physical, logical) = match column.cell {
            Cell::Number(_) => (PhysicalType::INT64, LogicalType::integer(64, false)),
            Cell::Text(_) => (PhysicalType::BYTE_ARRAY, LogicalType::String),
        };
        let field = Type::primitive_type_builder(column.name, physical);
        Ok(Arc::new(field.with_logical_type(Some(logical)).with_repetition(Repetition::OPTIONAL).build()?))
    });
    Ok(Arc::new(Type::group_type_builder("trace").with_fields(fields.collect::<Result<_>>()?).build()?))
}

fn write_group<W: Write + Send>(records: &[Record], file: &mut SerializedFileWriter<W>) -> Result<()> {
    let mut group = file.next_row_group()?;
    let mut columns = COLUMNS.iter();
    while let (Some(mut writer), Some(column)) = (group.next_column()?, columns.next()) {
        match &column.cell {
            Cell::Number(cell) => {
                // Parquet keeps unsigned numbers in the bits of signed ones.
                let (levels, values) = present(records, |record| cell(record).map(|value| value as i64));
                writer.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
            }
            Cell::Text(cell) => {
                let (levels, values) = present(records, |record| cell(record).map(ByteArray::from));
                writer.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
            }
        }
        writer.close()?;
    }
    group.close()?;
    Ok(())
}

/// For each record whether it fills the cell (1) or not (0), and the values of those that do.
fn present<T>(records: &[Record], cell: impl Fn(&Record) -> Option<T>) -> (Vec<i16>, Vec<T>) {
    let mut values = Vec::new();
    let levels = records.iter().map(|record| {
        let value = cell(record);
        let level = i16::from(value.is_some());
        values.extend(value);
        level
    });
    (levels.collect(), values)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::*;
    use crate::samples;

    #[test]
    fn every_cell_reads_back() {
        let mut file = tempfile::tempfile().unwrap();
        let trace = samples::trace();
        write(&trace, &mut file).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let metadata = reader.metadata().file_metadata().key_value_metadata().unwrap();
        assert!(metadata.iter().any(|entry| entry.key == HEADER_KEY && entry.value.as_ref().unwrap().contains("4242")));
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().collect::<Result<_>>().unwrap();
        assert_eq!(rows.len(), trace.records.len());
        for (row, record) in rows.iter().zip(&trace.records) {
            for ((name, field), column) in row.get_column_iter().zip(COLUMNS) {
                assert_eq!(name, column.name);
                let expect = match &column.cell {
                    Cell::Number(cell) => cell(record).map(Field::ULong),
                    Cell::Text(cell) => cell(record).map(|text| Field::Str(text.to_owned())),
                };
                assert_eq!(*field, expect.unwrap_or(Field::Null));
            }
        }
    }
}
