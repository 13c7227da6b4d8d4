//! The operators on values, with their names in GrowthBook's dialect.

use rkyv::bytecheck::CheckBytes;
use rkyv::{Archive, Portable, Serialize};

/// The kind of operand that an operator has in a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperandKind {
    /// Any value.
    Value,
    /// A number or a text.
    Comparable,
    Array,
    Boolean,
    TypeName,
    Version,
    Pattern,
    Group,
    Duration,
    Count,
    /// Operators, or a value.
    Operators,
    Condition,
    Size,
}

impl OperandKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Comparable => "comparable",
            Self::Array => "array",
            Self::Boolean => "boolean",
            Self::TypeName => "typeName",
            Self::Version => "version",
            Self::Pattern => "pattern",
            Self::Group => "group",
            Self::Duration => "duration",
            Self::Count => "count",
            Self::Operators => "operators",
            Self::Condition => "condition",
            Self::Size => "size",
        }
    }
}

/// An operator on a value. Programs contain the discriminants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Archive, Serialize, Portable, CheckBytes)]
#[rkyv(as = Self)]
#[bytecheck(crate = rkyv::bytecheck)]
#[repr(u8)]
pub enum Operator {
    /// No operator: the condition has the value itself, which is compared with JavaScript's loose equality.
    LooseEq,
    Eq,
    Ne,
    Gt,
    Gte,
    Lt,
    Lte,
    In,
    Nin,
    Ini,
    Nini,
    All,
    Alli,
    Exists,
    Type,
    Veq,
    Vne,
    Vgt,
    Vgte,
    Vlt,
    Vlte,
    Regex,
    Regexi,
    NotRegex,
    NotRegexi,
    InGroup,
    NotInGroup,
    Within,
    Count,
    Not,
    ElemMatch,
    Size,
}

impl Operator {
    /// Every operator at the index of its discriminant, with its name in the dialect.
    pub(super) const NAMES: [(Operator, &'static str); 32] = [
        (Operator::LooseEq, "$eq"),
        (Operator::Eq, "$eq"),
        (Operator::Ne, "$ne"),
        (Operator::Gt, "$gt"),
        (Operator::Gte, "$gte"),
        (Operator::Lt, "$lt"),
        (Operator::Lte, "$lte"),
        (Operator::In, "$in"),
        (Operator::Nin, "$nin"),
        (Operator::Ini, "$ini"),
        (Operator::Nini, "$nini"),
        (Operator::All, "$all"),
        (Operator::Alli, "$alli"),
        (Operator::Exists, "$exists"),
        (Operator::Type, "$type"),
        (Operator::Veq, "$veq"),
        (Operator::Vne, "$vne"),
        (Operator::Vgt, "$vgt"),
        (Operator::Vgte, "$vgte"),
        (Operator::Vlt, "$vlt"),
        (Operator::Vlte, "$vlte"),
        (Operator::Regex, "$regex"),
        (Operator::Regexi, "$regexi"),
        (Operator::NotRegex, "$notRegex"),
        (Operator::NotRegexi, "$notRegexi"),
        (Operator::InGroup, "$inGroup"),
        (Operator::NotInGroup, "$notInGroup"),
        (Operator::Within, "$within"),
        (Operator::Count, "$count"),
        (Operator::Not, "$not"),
        (Operator::ElemMatch, "$elemMatch"),
        (Operator::Size, "$size"),
    ];

    /// Returns the operator with this name. Never returns [`Operator::LooseEq`], which has no name of its
    /// own.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let written = &Self::NAMES[1..];
        written.iter().find(|(_, known)| *known == name).map(|(operator, _)| *operator)
    }

    pub(super) fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// Returns the kind of the operand in a source file.
    pub(super) fn operand_kind(self) -> OperandKind {
        match self {
            Self::LooseEq | Self::Eq | Self::Ne => OperandKind::Value,
            Self::Gt | Self::Gte | Self::Lt | Self::Lte => OperandKind::Comparable,
            Self::In | Self::Nin | Self::Ini | Self::Nini | Self::All | Self::Alli => OperandKind::Array,
            Self::Exists => OperandKind::Boolean,
            Self::Type => OperandKind::TypeName,
            Self::Veq | Self::Vne | Self::Vgt | Self::Vgte | Self::Vlt | Self::Vlte => OperandKind::Version,
            Self::Regex | Self::Regexi | Self::NotRegex | Self::NotRegexi => OperandKind::Pattern,
            Self::InGroup | Self::NotInGroup => OperandKind::Group,
            Self::Within => OperandKind::Duration,
            Self::Count => OperandKind::Count,
            Self::Not => OperandKind::Operators,
            Self::ElemMatch => OperandKind::Condition,
            Self::Size => OperandKind::Size,
        }
    }

    /// Returns whether the operator compares the value with one other value.
    pub(super) fn takes_value(self) -> bool {
        use Operator::{Eq, Exists, Gt, Gte, LooseEq, Lt, Lte, Ne, Type, Veq, Vgt, Vgte, Vlt, Vlte, Vne};
        matches!(
            self,
            LooseEq | Eq | Ne | Gt | Gte | Lt | Lte | Exists | Type | Veq | Vne | Vgt | Vgte | Vlt | Vlte
        )
    }

    /// Returns whether the operator compares with a list of values.
    pub(super) fn takes_list(self) -> bool {
        matches!(self, Self::In | Self::Nin | Self::Ini | Self::Nini | Self::All | Self::Alli)
    }

    /// Returns whether the operator compares counts.
    pub(super) fn takes_count(self) -> bool {
        matches!(self, Self::Eq | Self::Ne | Self::Gt | Self::Gte | Self::Lt | Self::Lte)
    }
}

// The index of an operator in `NAMES` is its discriminant.
const _: () = {
    let mut code = 0;
    while code < Operator::NAMES.len() {
        assert!(Operator::NAMES[code].0 as usize == code);
        code += 1;
    }
};
