//! Writes the results of the segments of an experiment.

use serde_json::{Value as Json, json};

use super::comparison::ComparedSegment;
use super::count::ExperimentCount;
use super::metric_answer::{metric_lines, segment_metric_json};
use super::question::ExperimentQuestion;
use super::segments::{DimensionCount, SegmentCount};
use crate::insights::questions::answer::Cell;

/// The name of the segment of all values that are not listed, in the CSV output.
const OTHERS: &str = "(others)";

/// Returns the results of all segments. `compared` has those of the segments of each dimension.
pub(super) fn segments_json(
    question: &ExperimentQuestion,
    count: &ExperimentCount,
    compared: &[Vec<ComparedSegment>],
) -> Json {
    let dimensions = count.dimensions.iter().zip(compared).map(|(dimension, compared)| {
        let segment = |(segment, compared): (&SegmentCount, &ComparedSegment)| {
            segment_json(question, count, segment, compared)
        };
        let mut segments = dimension.segments.iter().zip(compared).map(segment);
        let values = dimension.values.iter().zip(&mut segments).map(|(value, mut segment)| {
            segment["value"] = json!(value.as_deref());
            segment
        });
        let values: Json = values.collect();
        let others = segments.next().filter(|_| dimension.more > 0).map(|mut others| {
            others["values"] = json!(dimension.more);
            others
        });
        json!({
            "segment": dimension.dimension.name(),
            "published": question.publishes(dimension.dimension),
            "values": values,
            "others": others,
        })
    });
    dimensions.collect()
}

fn segment_json(
    question: &ExperimentQuestion,
    count: &ExperimentCount,
    segment: &SegmentCount,
    compared: &ComparedSegment,
) -> Json {
    let metrics = compared.iter().enumerate();
    let metrics = metrics
        .map(|(number, metric)| segment_metric_json(number, question, count, &segment.arms, metric))
        .collect::<Json>();
    let arms = segment.arms.iter().map(|arm| json!({ "key": arm.key, "exposed": arm.exposed }));
    json!({ "exposed": segment.exposed(), "arms": arms.collect::<Json>(), "metrics": metrics })
}

/// Returns the lines of all segments with visitors.
pub(super) fn segment_lines(
    question: &ExperimentQuestion,
    count: &ExperimentCount,
    compared: &[Vec<ComparedSegment>],
) -> Vec<Vec<Cell>> {
    let dimensions = count.dimensions.iter().zip(compared);
    let segments =
        dimensions.flat_map(|(dimension, compared)| lines_of_dimension(question, count, dimension, compared));
    segments.collect()
}

fn lines_of_dimension(
    question: &ExperimentQuestion,
    count: &ExperimentCount,
    dimension: &DimensionCount,
    compared: &[ComparedSegment],
) -> Vec<Vec<Cell>> {
    let name = Some(dimension.dimension.name());
    let values = dimension.values.iter().map(|value| value.as_deref());
    let values = values.chain((dimension.more > 0).then_some(Some(OTHERS)));
    let segments = values.zip(dimension.segments.iter().zip(compared));
    let lines = segments.flat_map(|(value, (segment, compared))| {
        let metrics = question.metrics.iter().zip(compared).enumerate();
        let metrics = metrics.filter(|(_, (metric, _))| !(metric.is_amount() && count.money.is_mixed()));
        metrics.flat_map(move |(number, (metric, compared))| {
            metric_lines(number, metric, &segment.arms, None, compared, [name, value])
        })
    });
    lines.collect()
}
