//! The reference cases of gbstats, scipy and statsmodels. The directory `PARALLAX_CASES` contains
//! `statistics/cases.json`.

use parallax::testing::insights::statistics::difference::{Difference, Interval, Method, mixture_variance};
use parallax::testing::insights::statistics::distributions;
use parallax::testing::insights::statistics::many::{benjamini_hochberg, holm};
use parallax::testing::insights::statistics::mismatch::test_any_time;
use parallax::testing::insights::statistics::moments::{MeanPair, Moments, RatioSums};
use parallax::testing::insights::statistics::rates::wilson;
use parallax::testing::insights::statistics::sample_size::{Target, visitors_per_arm};
use serde_json::{Value as Json, json};

/// Numbers of p-values and tails. Below 1e-12 their logarithms are compared.
const TAILS: [&str; 2] = ["p", "value"];

/// Kinds of cases, and functions, that Parallax does not compute. `cuped` has one covariate, and factors that are not
/// computed within the arms.
const NOT_COMPUTED: [&str; 7] = ["bayesian", "newcombe", "srm", "msprt", "normal.sf", "chi2.sf", "cuped"];

fn number(from: &Json, member: &str) -> f64 {
    from[member].as_f64().unwrap_or_else(|| panic!("a number {member} in {from}"))
}

fn count(from: &Json, member: &str) -> u64 {
    from[member].as_u64().unwrap_or_else(|| panic!("a count {member} in {from}"))
}

fn numbers(from: &Json) -> Vec<f64> {
    from.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
}

fn is_close(member: &str, actual: f64, expected: f64) -> bool {
    if TAILS.contains(&member) && expected > 0.0 && expected < 1e-12 {
        return (actual.ln() - expected.ln()).abs() <= 1e-4;
    }
    (actual - expected).abs() <= 1e-9_f64.max(1e-6 * expected.abs())
}

/// Compares two documents, number by number.
fn assert_close(id: &str, member: &str, actual: &Json, expected: &Json) {
    match (actual, expected) {
        (Json::Object(_), Json::Object(expected)) => {
            expected.iter().for_each(|(name, value)| assert_close(id, name, &actual[name], value));
        }
        (Json::Array(actual), Json::Array(expected)) => {
            assert_eq!(actual.len(), expected.len(), "{id}: {member}");
            actual
                .iter()
                .zip(expected)
                .for_each(|(actual, expected)| assert_close(id, member, actual, expected));
        }
        (Json::Number(actual), Json::Number(expected)) => {
            let [actual, expected] = [actual, expected].map(|number| number.as_f64().expect("an f64"));
            assert!(is_close(member, actual, expected), "{id}: {member} is {actual}, not {expected}");
        }
        _ => assert_eq!(actual, expected, "{id}: {member}"),
    }
}

/// Returns the moments of the two arms of a case.
fn moments(kind: &str, input: &Json) -> (Moments, Moments) {
    let of_arm = |arm: &Json| match kind {
        "mean" => Moments::of_mean(count(arm, "n"), number(arm, "sum"), number(arm, "sumOfSquares")),
        "ratio" => Moments::of_ratio(&RatioSums {
            visitors: count(arm, "n"),
            numerator: number(arm, "sumM"),
            numerator_squares: number(arm, "sumMM"),
            denominator: number(arm, "sumD"),
            denominator_squares: number(arm, "sumDD"),
            products: number(arm, "sumMD"),
        }),
        _ => Moments::of_proportion(count(arm, "n"), count(arm, "converted")),
    };
    (of_arm(&input["a"]), of_arm(&input["b"]))
}

fn difference(kind: &str, input: &Json) -> Difference {
    let (a, b) = moments(kind, input);
    match input["difference"].as_str() {
        Some("relative") => Difference::relative(&a, &b),
        _ => Difference::absolute(&MeanPair::of(&a, &b)),
    }
}

fn ends(interval: Option<Interval>) -> (f64, f64) {
    let interval = interval.expect("a finite interval");
    (interval.low, interval.high)
}

/// Returns the result of a case with two arms and an interval.
fn two_arms(kind: &str, input: &Json) -> Json {
    let (difference, alpha) = (difference(kind, input), number(input, "alpha"));
    let method = match kind {
        "sequential" => Method::Anytime { planned: count(input, "tuning") },
        _ => Method::Fixed,
    };
    let (low, high) = ends(difference.interval(method, alpha));
    let rho = input["tuning"].as_u64().map(|planned| mixture_variance(alpha, planned).sqrt());
    json!({ "estimate": difference.estimate, "se": difference.variance.sqrt(), "dof": difference.freedom,
        "low": low, "high": high, "p": difference.p_value(method, alpha), "rho": rho })
}

fn one_rate(input: &Json) -> Json {
    let (visitors, converted) = (count(input, "n"), count(input, "converted"));
    let (low, high) = ends(wilson(visitors, converted, number(input, "alpha")));
    json!({ "rate": Moments::of_proportion(visitors, converted).mean, "low": low, "high": high })
}

fn split(input: &Json) -> Json {
    let observed: Vec<u64> =
        numbers(&input["observed"]).into_iter().map(|visitors| visitors as u64).collect();
    let weights = numbers(&input["weights"]);
    let test = test_any_time(&[(observed, weights)]).expect("a test");
    json!({ "logBayesFactor": test.ln_bayes_factor, "p": test.p })
}

fn many(input: &Json) -> Json {
    let p_values: Vec<Option<f64>> = numbers(&input["p"]).into_iter().map(Some).collect();
    let adjusted = benjamini_hochberg(&p_values);
    let rejected: Vec<bool> = adjusted.iter().map(|p| p.expect("present") < number(input, "q")).collect();
    json!({ "benjaminiHochberg": adjusted, "rejected": rejected, "holm": holm(&p_values) })
}

fn size(input: &Json) -> Json {
    let target = Target {
        rate: number(input, "rate"),
        lift: number(input, "relativeLift"),
        alpha: number(input, "alpha"),
        power: number(input, "power"),
    };
    json!({ "visitorsPerArm": visitors_per_arm(&target, Method::Fixed) })
}

fn function(input: &Json) -> Json {
    let arguments = numbers(&input["arguments"]);
    let value = match input["function"].as_str().expect("a name") {
        "normal.quantile" => distributions::normal_quantile(arguments[0]),
        "t.sf" => distributions::t_sf(arguments[0], arguments[1]),
        "lnGamma" => distributions::ln_gamma(arguments[0]),
        other => panic!("unknown function {other}"),
    };
    json!({ "value": value })
}

#[test]
fn the_statistics_agree_with_all_reference_cases() {
    let Some(directory) = crate::harness::cases() else { return };
    let text = std::fs::read(directory.join("statistics/cases.json")).expect("readable");
    let file: Json = serde_json::from_slice(&text).expect("JSON");
    let is_computed = |case: &&Json| {
        let mut names = [&case["kind"], &case["in"]["function"]].into_iter().filter_map(Json::as_str);
        !names.any(|name| NOT_COMPUTED.contains(&name))
    };
    let cases: Vec<&Json> = file["cases"].as_array().expect("cases").iter().filter(is_computed).collect();
    for case in &cases {
        let (id, kind, input) = (case["id"].as_str().expect("an ID"), &case["kind"], &case["in"]);
        let actual = match kind.as_str().expect("a kind") {
            kind @ ("proportion" | "mean" | "ratio" | "sequential") => two_arms(kind, input),
            "rate" => one_rate(input),
            "srm-anytime" => split(input),
            "many" => many(input),
            "size" => size(input),
            "function" => function(input),
            other => panic!("{id}: unknown kind {other}"),
        };
        assert_close(id, "out", &actual, &case["out"]);
    }
    assert!(cases.len() >= 36, "only {} cases", cases.len());
}

/// Quantiles of Student's t distribution: degrees of freedom, tail, value, by mpmath with 40 digits.
const T_QUANTILES: &[(f64, f64, f64)] = &[
    (1.0, 0.4, 0.32491969623290623),
    (1.0, 0.025, 12.706204736174705),
    (1.0, 0.0005, 636.6192487687196),
    (1.0, 1e-9, 318309886.1837906),
    (1.5, 0.4, 0.3007453925697953),
    (1.5, 0.025, 6.0166631044279315),
    (1.5, 0.0005, 82.84744670365761),
    (1.5, 1e-9, 521946.94273343723),
    (2.0, 0.4, 0.2886751345948128),
    (2.0, 0.025, 4.302652729749464),
    (2.0, 0.0005, 31.59905457644362),
    (2.0, 1e-9, 22360.679741456875),
    (18.2, 0.4, 0.25708122492976054),
    (18.2, 0.025, 2.09926839329977),
    (18.2, 0.0005, 3.913610292866951),
    (18.2, 1e-9, 10.923420956060452),
    (99.0, 0.4, 0.2540290121518067),
    (99.0, 0.025, 1.9842169515864174),
    (99.0, 0.0005, 3.3915288333636506),
    (99.0, 1e-9, 6.60551760895705),
    (877.5, 0.4, 0.25342392842598727),
    (877.5, 0.025, 1.9626710968757235),
    (877.5, 0.0005, 3.301648761179204),
    (877.5, 1e-9, 6.0615625853664765),
    (39619.6, 0.4, 0.2533488043720767),
    (39619.6, 0.025, 1.9600238625416464),
    (39619.6, 0.0005, 3.290772326861243),
    (39619.6, 1e-9, 5.999206609661849),
    (1e6, 0.4, 0.2533471705378416),
    (1e6, 0.025, 1.959966356814107),
    (1e6, 0.0005, 3.290536461248691),
    (1e6, 1e-9, 5.997862455710895),
];

#[test]
fn quantiles_of_the_t_distribution_are_right_in_both_tails_and_for_any_degrees_of_freedom() {
    for &(freedom, tail, expected) in T_QUANTILES {
        let actual = distributions::t_quantile_upper(tail, freedom);
        assert!((actual / expected - 1.0).abs() < 2e-7, "{freedom} {tail}: {actual} is not {expected}");
    }
    assert_eq!(distributions::t_sf(f64::INFINITY, 5.0), 0.0);
    assert_eq!(distributions::t_sf(1e200, 5.0), 0.0);
    let normal = distributions::normal_quantile(0.975);
    let unlimited = distributions::t_quantile_upper(0.025, f64::INFINITY);
    assert!((unlimited / normal - 1.0).abs() < 3e-7, "{unlimited}");
}
